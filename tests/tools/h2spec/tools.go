// What h2spec needs, in versions that old compilers build; see tests/flow/h2spec.py.

//go:build tools

package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
