// The three tutorials, by the Java client that openapi-generator makes of /openapi.json: the steps of check.ts.
// Arguments: the server's URL, and the directory into which it writes mails.

import faregate.ApiClient;
import faregate.ApiException;
import faregate.ApiResponse;
import faregate.api.AccountApi;
import faregate.api.FeatureFlagsApi;
import faregate.api.LedgerApi;
import faregate.api.OfrepApi;
import faregate.api.PaymentApi;
import faregate.api.SignUpApi;
import faregate.api.TenantApi;
import faregate.model.AccountRequest;
import faregate.model.Credentials;
import faregate.model.Fallthrough;
import faregate.model.FlagDocument;
import faregate.model.FlagPatch;
import faregate.model.FlagRequest;
import faregate.model.NewRegistration;
import faregate.model.NewTenant;
import faregate.model.OfrepContext;
import faregate.model.OfrepRequest;
import faregate.model.PaymentJson;
import faregate.model.PaymentMethodRequest;
import faregate.model.RolloutVariation;
import faregate.model.SegmentPatch;
import faregate.model.SegmentRequest;
import faregate.model.Token;
import faregate.model.TransactionRequest;
import faregate.model.User;
import faregate.model.Variation;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

class Check {
    static final String NAME = "java-" + Long.toString(System.nanoTime(), 36);
    static final String ENVIRONMENT = "dev";
    static String url;
    static Path mails;
    static String secret;
    static int passed;
    static int failed;

    interface Step {
        Object run() throws Exception;
    }

    static void check(String what, boolean holds, Object found) {
        if (holds) {
            passed += 1;
        } else {
            failed += 1;
            System.out.println("FAILED " + what + ": " + found);
        }
    }

    /** The refusal of a step; null where it is none. */
    static ApiException refused(Step step) throws Exception {
        try {
            step.run();
            return null;
        } catch (ApiException error) {
            return error;
        }
    }

    static ApiClient client() {
        ApiClient client = new ApiClient();
        client.setBasePath(url);
        return client;
    }

    static ApiClient operator() {
        ApiClient client = client();
        client.setUsername("admin");
        client.setPassword("password");
        return client;
    }

    static ApiClient withTenant(ApiClient client) {
        client.addDefaultHeader("X-Killbill-ApiKey", NAME);
        client.addDefaultHeader("X-Killbill-ApiSecret", secret);
        return client;
    }

    static UUID created(ApiResponse<?> response) {
        List<String> found = response.getHeaders().entrySet().stream()
            .filter(it -> it.getKey().equalsIgnoreCase("location")).findFirst().orElseThrow().getValue();
        String path = found.get(0).replaceAll("/$", "");
        return UUID.fromString(path.substring(path.lastIndexOf('/') + 1));
    }

    static void tenant() throws Exception {
        TenantApi installation = new TenantApi(operator());
        var made = installation.createTenantWithHttpInfo(new NewTenant().apiKey(NAME));
        check("a tenant is created", made.getStatusCode() == 201, made.getStatusCode());
        secret = made.getData().getApiSecret();
        check("its secret is shown", secret.length() >= 32, secret.length());
        ApiException again = refused(() -> installation.createTenant(new NewTenant().apiKey(NAME)));
        check("a second one of its key is a problem", again != null && again.getCode() == 409, again);
    }

    static void firstPayment(ApiClient client) throws Exception {
        AccountApi accounts = new AccountApi(client);
        PaymentApi payments = new PaymentApi(client);
        String by = "generated";
        AccountRequest ada = new AccountRequest().name("Ada").email("ada@example.com").currency("EUR");
        var account = accounts.accountCreateWithHttpInfo(by, ada, null, null, null, null);
        check("an account is created", account.getStatusCode() == 201, account.getStatusCode());
        var external = new PaymentMethodRequest().pluginName("__EXTERNAL_PAYMENT__");
        var method = accounts.accountAddPaymentMethodWithHttpInfo(
            created(account), by, external, true, null, null, null, null, null, null);
        check("a payment method is created", method.getStatusCode() == 201, method.getStatusCode());
        var hundred = new TransactionRequest().transactionType("AUTHORIZE").amount(100.0).paymentExternalKey(NAME);
        var authorized = accounts.accountStartPaymentWithHttpInfo(
            created(account), by, hundred, null, null, null, null, null, null, NAME);
        check("a payment is authorized", authorized.getStatusCode() == 201, authorized.getStatusCode());
        UUID payment = created(authorized);
        var captured = payments.paymentCaptureWithHttpInfo(
            payment, by, new TransactionRequest().amount(60.0), null, null, null, null, null, null);
        check("it is captured", captured.getStatusCode() == 201, captured.getStatusCode());
        var refunded = payments.paymentRefundWithHttpInfo(
            payment, by, new TransactionRequest().amount(15.0), null, null, null, null, null, null);
        check("it is refunded", refunded.getStatusCode() == 201, refunded.getStatusCode());
        ApiException above = refused(() -> payments.paymentRefundWithHttpInfo(
            payment, by, new TransactionRequest().amount(50.0), null, null, null, null, null, null));
        check("no more than is left", above != null && above.getResponseBody().contains("7031"), above);
        PaymentJson read = payments.paymentGet(payment, null, null, null, null, null);
        List<Double> amounts = List.of(read.getAuthAmount(), read.getCapturedAmount(), read.getRefundedAmount());
        check("its amounts are numbers", amounts.equals(List.of(100.0, 60.0, 15.0)), amounts);
        var entries = new LedgerApi(client).ledgerEntries(null, payment, null, null, null, null, null);
        check("the ledger has both postings", entries.getEntries().size() == 2, entries);
    }

    static RolloutVariation part(String id, double from, double to) {
        return new RolloutVariation().id(id).rollout(List.of(from, to));
    }

    static FlagRequest flag(String key, String disabled) {
        return new FlagRequest().key(key).variationType("boolean").disabledVariationId(disabled)
            .variations(List.of(new Variation().id("on").value("true"), new Variation().id("off").value("false")))
            .fallthrough(new Fallthrough().variations(List.of(part("on", 0, 1))));
    }

    static void firstFlag(ApiClient client) throws Exception {
        FeatureFlagsApi flags = new FeatureFlagsApi(client);
        String key = "new-checkout";
        var made = flags.createFlagWithHttpInfo(flag(key, "off"), ENVIRONMENT, null);
        check("a flag is created, off", !made.getData().getIsEnabled(), made.getData());
        String version = made.getHeaders().entrySet().stream()
            .filter(it -> it.getKey().equalsIgnoreCase("etag")).findFirst().orElseThrow().getValue().get(0);
        FlagPatch patch = new FlagPatch().isEnabled(true)
            .fallthrough(new Fallthrough().variations(List.of(part("on", 0, 0.1), part("off", 0.1, 1))));
        FlagDocument rolledOut = flags.patchFlag(key, patch, ENVIRONMENT, null, version);
        boolean isWhole = rolledOut.getVariations().size() == 2 && rolledOut.getFallthrough().getVariations().size() == 2;
        check("it is rolled out", rolledOut.getIsEnabled() && isWhole, rolledOut);
        var explained = flags.explainFlag(key, new User().keyId("ann"), ENVIRONMENT, null);
        check("it is explained", explained.getKey().equals(key), explained);
        ApiException wrong = refused(() -> flags.createFlag(flag("other", "none"), ENVIRONMENT, null));
        check("a wrong field is named",
            wrong != null && wrong.getResponseBody().contains("\"disabledVariationId\""), wrong);
        String sdkSecret = flags.environments().stream().filter(it -> it.getKey().equals(ENVIRONMENT))
            .findFirst().orElseThrow().getSecrets().get(0).getValue();
        ApiClient sdk = client();
        sdk.addDefaultHeader("X-API-Key", sdkSecret);
        OfrepContext context = new OfrepContext().targetingKey("ann").putAdditionalProperty("plan", "gold");
        var value = new OfrepApi(sdk).postOfrepV1EvaluateFlagsKey(key, new OfrepRequest().context(context));
        check("OpenFeature's protocol has its value", value.getValue() instanceof Boolean, value);
        segment(flags);
    }

    /** A field that is not set is not sent as an empty list. */
    static void segment(FeatureFlagsApi flags) throws Exception {
        SegmentRequest staff = new SegmentRequest().name("staff").included(List.of("ann")).excluded(List.of("bob"));
        String id = flags.createSegment(staff, ENVIRONMENT, null).getId();
        var renamed = flags.patchSegment(id, new SegmentPatch().name("crew"), ENVIRONMENT, null, null);
        boolean holds = renamed.getName().equals("crew") && renamed.getIncluded().equals(List.of("ann"));
        check("a segment's lists stay", holds && renamed.getExcluded().equals(List.of("bob")), renamed);
    }

    static void firstSignUp(ApiClient ofTenant) throws Exception {
        SignUpApi signUp = new SignUpApi(ofTenant);
        String email = NAME + "@example.com";
        String password = "Correct-Horse-7";
        var registered = signUp.signUpRegister(new NewRegistration().email(email).password(password)
            .firstName("Ada").lastName("Lovelace").acceptTerms(true), null, null);
        check("a customer registers", registered.getStatus().equals("verification-sent"), registered);
        String token = mailedToken(email);
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/verify-email?token=" + token)).build();
        var page = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        check("the link in the mail has a page",
            page.statusCode() == 200 && page.body().contains("<button>"), page.statusCode());
        var verified = signUp.signUpVerifyWithHttpInfo(new Token().token(token));
        check("the address is verified", verified.getStatusCode() == 204, verified.getStatusCode());
        var session = signUp.signUpLogInWithHttpInfo(new Credentials().email(email).password(password), null);
        check("the customer logs in", session.getStatusCode() == 201, session.getStatusCode());
        ApiClient customer = withTenant(client());
        customer.addDefaultHeader("Authorization", "Bearer " + session.getData().getAccessToken());
        var me = new SignUpApi(customer).signUpMe();
        check("and sees themselves", me.getEmail().equals(email), me);
    }

    /** The token of the mail to an address; mails are sent within moments. */
    static String mailedToken(String email) throws Exception {
        Pattern link = Pattern.compile("verify-email\\?token=([\\w.~-]+)");
        for (int left = 100; left > 0; left -= 1) {
            List<Path> files = List.of();
            if (Files.isDirectory(mails)) {
                try (var listed = Files.list(mails)) {
                    files = listed.toList();
                }
            }
            for (Path file : files) {
                String text = Files.readString(file).replace("=\r\n", "").replace("=3D", "=");
                Matcher token = link.matcher(text);
                if (text.contains(email) && token.find()) {
                    return token.group(1);
                }
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("no mail came");
    }

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        mails = Path.of(arguments[1]);
        tenant();
        firstPayment(withTenant(operator()));
        firstFlag(withTenant(operator()));
        firstSignUp(withTenant(client()));
        System.out.println(passed + " passed, " + failed + " failed");
    }
}
