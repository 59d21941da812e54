"""A CA and leaves as a strict verifier wants them."""
import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class CA:
    def __init__(self, folder, key, cert):
        self.folder, self.key, self.cert = folder, key, cert
        self.file = folder / "ca.pem"
        self.file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject, issuer, key):
    now = datetime.datetime.utcnow()
    return (x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(issuer).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=30)))


def _usage(sign, certs):
    return x509.KeyUsage(digital_signature=sign, content_commitment=False, key_encipherment=False,
                         data_encipherment=False, key_agreement=False, key_cert_sign=certs, crl_sign=certs,
                         encipher_only=False, decipher_only=False)


def let_read(folder):
    """To the gateway's own user: the folders that pytest makes are closed to others."""
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.geteuid() and path != path.parent:
            path.chmod(path.stat().st_mode | 0o055)


def make_ca(folder, name="Test CA"):
    folder.mkdir(exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    cert = (_builder(name, _name(name), key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .add_extension(_usage(False, True), True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256()))
    return CA(folder, key, cert)


def _san(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def make_leaf(ca, *hosts, client=False):
    """(certificate file, key file)"""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    cert = (_builder(hosts[0], ca.cert.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(_usage(True, False), True)
            .add_extension(x509.ExtendedKeyUsage([usage]), False)
            .add_extension(x509.SubjectAlternativeName([_san(h) for h in hosts]), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), False)
            .sign(ca.key, hashes.SHA256()))
    files = ca.folder / ("%s.pem" % hosts[0]), ca.folder / ("%s.key" % hosts[0])
    files[0].write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
    return files
