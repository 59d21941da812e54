"""boto3 before a bucket that checks every signature itself, and a token service that lends the role's keys."""
import re

import pytest
from conftest import HERE

from bucket import Bucket
from company import Company
from company_systems import Sts

PYTHON, HOST = "/usr/bin/python3", "example-bucket.s3.eu-west-1.amazonaws.com"
CALLS = ["whole", "streamed", "listed", "parts", "given_up", "a_part_of_it"]


class Cloud:
    def __init__(self, house, folder):
        self.firm = Company(folder / "firm", protocols=["http/1.1"])  # S3 has no other
        self.bucket = self.firm.add(HOST, Bucket("example-bucket"))
        self.sts = self.firm.add("sts.example.test", Sts(self.bucket))
        self.h = house("aws-s3", firm=self.firm)
        self.h.connectors[0]["auth"]["token_url"] = f"https://sts.example.test:{self.firm.port}/"
        self.h.move(HOST)
        self.h.hosts["sts.example.test"] = ["127.0.0.9"]
        self.h.start(**{"aws/agents": f"{self.sts.agents.id}:{self.sts.agents.secret}"})
        self.h.values.update(role=self.bucket.secret, session=self.sts.session)

    def call(self, *names):
        """The placeholder, and what came of each."""
        env = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_MAX_ATTEMPTS": "1", "AWS_SECRET_ACCESS_KEY": "none"}
        return self.h.inside(PYTHON, HERE / "s3_client.py", *names, env=env).stdout.split("\n", 1)


@pytest.fixture(scope="module")
def cloud(house, tmp_path_factory):
    return Cloud(house, tmp_path_factory.mktemp("cloud"))


def test_objects_are_put_got_and_listed_with_a_placeholder_for_a_key(cloud):
    placeholder, said = cloud.call(*CALLS)
    assert said == "".join(f"{name} ok\n" for name in CALLS), (said, [r.refused for r in cloud.bucket.seen if r.refused])
    assert re.fullmatch(r"\w{40}", placeholder) and placeholder not in (cloud.sts.agents.secret, cloud.bucket.secret)
    assert [r.refused for r in cloud.sts.seen + cloud.bucket.seen if r.refused] == []
    assert len(cloud.sts.seen) == 1 and all(r.one("x-amz-security-token") == cloud.sts.session for r in cloud.bucket.seen)
    assert len(cloud.bucket.ranges) > 2 and not any(placeholder in str(r.fields) for r in cloud.bucket.seen)


def test_what_the_preset_leaves_out_is_refused_in_the_words_of_the_library(cloud):
    cloud.bucket.objects["others/secret"] = b"not for agents"
    before = len(cloud.bucket.seen)
    said = cloud.call("refused")[1]
    assert said == "refused ok\n", said
    assert len(cloud.bucket.seen) == before and len(cloud.sts.seen) == 1


def test_a_field_of_a_request_opens_no_other_object_and_no_door(cloud):
    cloud.bucket.objects["others/secret"] = b"not for agents"
    assert cloud.call("not_copied")[1] == "not_copied ok\n"
    assert not {"x-amz-copy-source", "x-amz-acl"} & set(cloud.bucket.fields["agents/copy"])
