#!/usr/bin/env bash
# Drives a running server through grpcurl, which knows our API by reflection only.
#   conformance/grpc/grpcurl.sh GRPCURL HTTP_URL HOST:PORT
set -uo pipefail

grpcurl=$1 url=$2 target=$3
passed=0 failed=0
tenant=grpcurl-$$-$RANDOM

check() { # check NAME EXPECTED FOUND: whether FOUND contains EXPECTED
  if [[ $3 == *"$2"* ]]; then
    passed=$((passed + 1))
    echo "passed  $1"
  else
    failed=$((failed + 1))
    echo "FAILED  $1: no $2 in: $3"
  fi
}

call() { # call METHOD JSON [OPTION...]
  local method=$1 message=$2
  shift 2
  "$grpcurl" -plaintext -H 'authorization: Basic YWRtaW46cGFzc3dvcmQ=' -H "x-faregate-apikey: $tenant" \
    -H 'x-faregate-apisecret: secret' -d "$message" "$@" "$target" "faregate.v1.$method" 2>&1
}

field() { # field NAME < JSON: the first value of that name
  python3 -c '
import json, sys
def find(it):
    if isinstance(it, dict):
        if sys.argv[1] in it:
            return it[sys.argv[1]]
        it = it.values()
    return next(filter(None, map(find, it)), None) if not isinstance(it, (str, int, bool)) else None
print(find(json.load(sys.stdin)))' "$1"
}

python3 - "$url" "$tenant" <<'P'
import json, sys, urllib.request
url, tenant = sys.argv[1:]
body = json.dumps({"apiKey": tenant, "apiSecret": "secret"}).encode()
headers = {"Authorization": "Basic YWRtaW46cGFzc3dvcmQ=", "X-Killbill-CreatedBy": "grpcurl",
           "Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(f"{url}/1.0/kb/tenants", body, headers), timeout=10)
P

check "reflection lists the services" faregate.v1.PaymentService "$("$grpcurl" -plaintext "$target" list 2>&1)"
check "reflection describes a message" "int64 minor_units = 1;" \
  "$("$grpcurl" -plaintext "$target" describe faregate.v1.Money 2>&1)"
check "health" SERVING "$("$grpcurl" -plaintext -d '{"service": "faregate.v1.PaymentService"}' "$target" grpc.health.v1.Health/Check 2>&1)"

account=$(call AccountService/Create '{"currency_code": "USD"}' | field accountId)
check "a payment method" paymentMethodId \
  "$(call AccountService/AddPaymentMethod "{\"account_id\": \"$account\", \"gateway\": \"__EXTERNAL_PAYMENT__\", \"is_default\": true}")"
paid=$(call PaymentService/Pay "{\"account_id\": \"$account\", \"amount\": {\"minor_units\": 1050, \"currency_code\": \"USD\"}}")
check "a payment" TRANSACTION_STATUS_SUCCESS "$paid"
check "it can be read" "$account" "$(call PaymentService/Get "{\"payment_id\": \"$(field paymentId <<<"$paid")\"}")"
check "the balance" '"balanceMinorUnits": "-1050"' "$(call BalanceService/GetBalance "{\"account_id\": \"$account\"}")"
bad=$(call PaymentService/Pay "{\"account_id\": \"$account\", \"amount\": {\"minor_units\": -1, \"currency_code\": \"USD\"}}")
check "a bad amount is named" amount.minor_units "$bad"
check "with the code" InvalidArgument "$bad"
check "without credentials" Unauthenticated "$("$grpcurl" -plaintext -d '{}' "$target" faregate.v1.PaymentService/Pay 2>&1)"
echo "$passed passed, $failed failed"
