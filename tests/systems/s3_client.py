#!/usr/bin/env python3
"""boto3 as its users use it: told the bucket, its region, and whatever the environment has for keys."""
import hashlib
import io
import os
import sys
import traceback

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

NAME = "example-bucket"
S3 = boto3.client("s3", region_name="eu-west-1")


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def fails(code, call, **words):
    try:
        answer = call(**words)
    except ClientError as e:
        found = e.response["Error"]["Code"], e.response["ResponseMetadata"]["HTTPStatusCode"]
        expect(code in found, (found, str(e)))
        return
    raise AssertionError(f"answered {answer}")


def whole():
    for key in ("agents/plain", "agents/b c/+\u00e9&=?%41"):
        S3.put_object(Bucket=NAME, Key=key, Body=b"content of " + key.encode(), Metadata={"for": "a test"})
        expect(S3.get_object(Bucket=NAME, Key=key)["Body"].read() == b"content of " + key.encode(), key)
        expect(S3.head_object(Bucket=NAME, Key=key)["ContentLength"] > 0, key)
    S3.put_object(Bucket=NAME, Key="agents/none", Body=b"")
    expect(S3.get_object(Bucket=NAME, Key="agents/none")["Body"].read() == b"", "not empty")
    S3.delete_object(Bucket=NAME, Key="agents/none")
    fails("NoSuchKey", S3.get_object, Bucket=NAME, Key="agents/none")


def streamed():
    data = os.urandom(3_000_000)
    S3.put_object(Bucket=NAME, Key="agents/stream", Body=io.BytesIO(data))
    expect(S3.get_object(Bucket=NAME, Key="agents/stream")["Body"].read() == data, "other octets")


def listed():
    keys = [f"agents/list/{n:03}" for n in range(25)]
    for key in keys:
        S3.put_object(Bucket=NAME, Key=key, Body=key.encode())
    pages = S3.get_paginator("list_objects_v2").paginate(Bucket=NAME, Prefix="agents/list/", PaginationConfig={"PageSize": 10})
    found = [o["Key"] for page in pages for o in page["Contents"]]
    expect(found == keys, found)


def parts():
    """What s3transfer makes of a large file: parts, by several threads at once, up and down."""
    config = TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=8 << 20, max_concurrency=4)
    data = os.urandom(30 << 20)
    with open("sent", "wb") as f:
        f.write(data)
    S3.upload_file("sent", NAME, "agents/large", Config=config)
    S3.download_file(NAME, "agents/large", "got", Config=config)
    with open("got", "rb") as f:
        got = f.read()
    expect(hashlib.sha256(got).digest() == hashlib.sha256(data).digest(), f"{len(got)} other octets than {len(data)}")


def given_up():
    upload = S3.create_multipart_upload(Bucket=NAME, Key="agents/never")["UploadId"]
    S3.upload_part(Bucket=NAME, Key="agents/never", UploadId=upload, PartNumber=1, Body=b"x" * 1000)
    S3.abort_multipart_upload(Bucket=NAME, Key="agents/never", UploadId=upload)
    fails("NoSuchKey", S3.get_object, Bucket=NAME, Key="agents/never")


def a_part_of_it():
    S3.put_object(Bucket=NAME, Key="agents/digits", Body=b"0123456789")
    got = S3.get_object(Bucket=NAME, Key="agents/digits", Range="bytes=2-4")
    expect(got["Body"].read() == b"234" and got["ContentRange"] == "bytes 2-4/10", got)


def refused():
    fails(403, S3.get_object, Bucket=NAME, Key="others/secret")
    fails(403, S3.get_object_acl, Bucket=NAME, Key="agents/plain")
    fails(403, S3.get_bucket_policy, Bucket=NAME)
    fails(403, S3.delete_bucket, Bucket=NAME)
    try:
        boto3.client("sts", region_name="eu-west-1").assume_role(RoleArn="arn:aws:iam::000000000000:role/admin", RoleSessionName="mine")
    except BotoCoreError:  # its host is none that the policy knows
        return
    raise AssertionError("a role was lent")


def not_copied():
    """A copy names its source in a field, which no rule of paths sees."""
    try:
        S3.copy_object(Bucket=NAME, Key="agents/copy", CopySource=f"{NAME}/others/secret", ACL="public-read")
    except Exception:  # what a client makes of an empty answer is its own business
        pass
    expect(S3.get_object(Bucket=NAME, Key="agents/copy")["Body"].read() == b"", "it was copied")


def main():
    print(os.environ["AWS_SECRET_ACCESS_KEY"])
    for name in sys.argv[1:]:
        try:
            globals()[name]()
            print(name, "ok", flush=True)
        except Exception:
            print(name, "FAILED", traceback.format_exc()[-1500:], flush=True)


main()
