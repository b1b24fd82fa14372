"""What gRPC says of accounts and of their users' flags, where Python's gRPC is installed."""

import os

import grpc_stubs

# It reports each process that is started beside it.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

try:
    import grpc
    grpc_stubs.generate()
    from faregate.v1 import entitlement_service_pb2 as entitlements_pb
    from faregate.v1 import entitlement_service_pb2_grpc as entitlements_rpc
    from faregate.v1 import flag_service_pb2 as flags_pb
    from faregate.v1 import flag_service_pb2_grpc as flags_rpc
    IS_THERE = True
except ImportError:
    IS_THERE = False

ANSWER_S = 300


class Rpc:
    """One connection to a server."""

    def __init__(self, target, tenant, client_secret):
        self.channel = grpc.aio.insecure_channel(target)
        self.flags = flags_rpc.FlagServiceStub(self.channel)
        self.entitlements = entitlements_rpc.EntitlementServiceStub(self.channel)
        self.of_tenant = grpc_stubs.credentials(tenant, tenant)
        self.of_client = [("x-api-key", client_secret)]

    async def flag(self, user, key):
        """Whether a flag is on for a user."""
        asked = flags_pb.EvaluateRequest(user=flags_pb.FlagUser(key=user), keys=[key])
        answer = await self.flags.Evaluate(asked, metadata=self.of_client, timeout=ANSWER_S)
        return answer.flags[0].boolean

    async def has(self, account, feature):
        """Whether an account has a feature, and the version of what it has."""
        asked = entitlements_pb.EntitlementServiceGetRequest(account_id=account)
        answer = await self.entitlements.Get(asked, metadata=self.of_tenant, timeout=ANSWER_S)
        document = answer.entitlements
        return any(it.feature == feature and it.value.on for it in document.features), document.version

    async def close(self):
        await self.channel.close()
