"""Python's gRPC for our protos, generated where it is asked for: needs conformance/grpc/requirements.txt."""

import atexit
import base64
import pathlib
import shutil
import sys
import tempfile

PROTO = pathlib.Path(__file__).resolve().parents[1] / "proto"


def generate():
    """Makes the modules of faregate.v1 importable; ImportError where grpcio-tools is not installed."""
    import grpc_tools
    from grpc_tools import protoc

    folder = tempfile.mkdtemp(prefix="faregate-grpc-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = sorted(str(path) for path in PROTO.glob("faregate/v1/*.proto"))
    included = str(pathlib.Path(grpc_tools.__file__).parent / "_proto")
    arguments = ["protoc", f"-I{PROTO}", f"-I{included}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    if protoc.main([*arguments, *files]) != 0:
        sys.exit("the protos cannot be compiled")
    sys.path.insert(0, folder)


def credentials(tenant, secret):
    """The metadata of the administrator, for a tenant."""
    basic = "Basic " + base64.b64encode(b"admin:password").decode()
    return [("authorization", basic), ("x-faregate-apikey", tenant), ("x-faregate-apisecret", secret)]
