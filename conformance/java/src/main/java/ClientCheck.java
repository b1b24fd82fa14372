import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import org.killbill.billing.catalog.api.Currency;
import org.killbill.billing.client.KillBillClientException;
import org.killbill.billing.client.KillBillHttpClient;
import org.killbill.billing.client.RequestOptions;
import org.killbill.billing.client.api.gen.AccountApi;
import org.killbill.billing.client.api.gen.AdminApi;
import org.killbill.billing.client.api.gen.PaymentApi;
import org.killbill.billing.client.api.gen.PaymentMethodApi;
import org.killbill.billing.client.api.gen.PaymentTransactionApi;
import org.killbill.billing.client.api.gen.SecurityApi;
import org.killbill.billing.client.api.gen.TenantApi;
import org.killbill.billing.client.model.Accounts;
import org.killbill.billing.client.model.AuditLogs;
import org.killbill.billing.client.model.PaymentMethods;
import org.killbill.billing.client.model.Payments;
import org.killbill.billing.client.model.gen.Account;
import org.killbill.billing.client.model.gen.AdminPayment;
import org.killbill.billing.client.model.gen.AuditLog;
import org.killbill.billing.client.model.gen.ComboPaymentTransaction;
import org.killbill.billing.client.model.gen.Payment;
import org.killbill.billing.client.model.gen.PaymentMethod;
import org.killbill.billing.client.model.gen.PaymentMethodPluginDetail;
import org.killbill.billing.client.model.gen.PaymentTransaction;
import org.killbill.billing.client.model.gen.RoleDefinition;
import org.killbill.billing.client.model.gen.Tenant;
import org.killbill.billing.client.model.gen.UserRoles;
import org.killbill.billing.payment.api.TransactionStatus;
import org.killbill.billing.payment.api.TransactionType;
import org.killbill.billing.util.api.AuditLevel;

/** Drives a running server through Kill Bill's official Java client, unchanged. */
public class ClientCheck extends Steps {
    private static final String EXTERNAL = "__EXTERNAL_PAYMENT__";
    private static final String TEST = "killbill-payment-test";
    // The client encodes values twice, so they are ones that need no encoding.
    private static final Map<String, String> PENDING =
            Map.of("ACTION_RETURN_PLUGIN_STATUS_PENDING", "purchasePayment");
    private static final Map<String, String> ERROR = Map.of("ACTION_RETURN_PLUGIN_STATUS_ERROR", "purchasePayment");
    private static final Map<String, String> UNDEFINED = Map.of("ACTION_SLEEP", "purchasePayment");

    private final String run = UUID.randomUUID().toString().substring(0, 8);
    private final RequestOptions options =
            RequestOptions.builder().withCreatedBy("java").withReason("check").withComment("of the client").build();
    private final KillBillHttpClient client;
    private final AccountApi accounts;
    private final PaymentApi payments;
    private final PaymentMethodApi methods;
    private final PaymentTransactionApi transactions;
    private Account account;
    private PaymentMethod external;
    private PaymentMethod test;

    private ClientCheck(String url) {
        client = new KillBillHttpClient(url, "admin", "password", "java-" + run, "secret");
        accounts = new AccountApi(client);
        payments = new PaymentApi(client);
        methods = new PaymentMethodApi(client);
        transactions = new PaymentTransactionApi(client);
    }

    public static void main(String[] arguments) {
        ClientCheck check = new ClientCheck(arguments[0]);
        check.all();
        BillingCheck billing = new BillingCheck(arguments[0]);
        billing.all();
        int passed = check.passed + billing.passed;
        int failed = check.failed + billing.failed;
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }

    private void all() {
        step("a tenant is created and found by its key", this::tenant);
        step("an account is created, changed and found", this::account);
        step("payment methods are added, listed, preferred and deleted", this::paymentMethods);
        step("authorize, capture twice, refund", this::authorizeCaptureRefund);
        step("authorize and void", this::voidAuthorization);
        step("purchase, chargeback and its reversal", this::chargeback);
        step("credit", this::credit);
        step("a plugin has Kill Bill's payment state machine and no other", this::stateMachine);
        step("a pending payment is completed", this::complete);
        step("a pending payment is said to have failed", this::notifyOfFailure);
        step("a declined payment is tried again", this::decline);
        step("an unknown payment is fixed by an operator", this::fixUnknown);
        step("refusals carry Kill Bill's codes", this::refusals);
        step("lists are paged, with audit", this::pages);
        step("history shows each state", this::history);
        step("a combo payment makes account and method", this::combo);
        step("a user may do what the roles say", this::roles);
    }

    private void tenant() throws KillBillClientException {
        TenantApi tenants = new TenantApi(client);
        Tenant tenant = new Tenant();
        tenant.setApiKey("java-" + run);
        tenant.setApiSecret("secret");
        tenant.setExternalKey("java " + run);
        Tenant made = tenants.createTenant(tenant, options);
        equal("api key", "java-" + run, made.getApiKey());
        equal("by key", made.getTenantId(), tenants.getTenantByApiKey("java-" + run, options).getTenantId());
        equal("by id", "java " + run, tenants.getTenant(made.getTenantId(), options).getExternalKey());
        String callback = "http://127.0.0.1:9/callback";
        equal("callback", List.of(callback), tenants.registerPushNotificationCallback(callback, options).getValues());
        tenants.deletePushNotificationCallbacks(options);
        equal("no callback", List.of(), tenants.getPushNotificationCallbacks(options).getValues());
    }

    private void stateMachine() throws KillBillClientException {
        TenantApi tenants = new TenantApi(client);
        String plugin = "killbill-payment-test";
        String xml;
        try (InputStream file = getClass().getResourceAsStream("/org/killbill/billing/payment/PaymentStates.xml")) {
            xml = new String(file.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
        equal("kept", List.of(xml),
                tenants.uploadPluginPaymentStateMachineConfig(plugin, xml, options).getValues());
        refused("another", 400, 7036,
                () -> tenants.uploadPluginPaymentStateMachineConfig(plugin, xml + " ", options));
        equal("still there", List.of(xml),
                tenants.getPluginPaymentStateMachineConfig(plugin, options).getValues());
        tenants.deletePluginPaymentStateMachineConfig(plugin, options);
        equal("gone", List.of(), tenants.getPluginPaymentStateMachineConfig(plugin, options).getValues());
    }

    private void account() throws KillBillClientException {
        Account wanted = new Account();
        wanted.setName("Jörg Müller");
        wanted.setExternalKey("account " + run + " %&/+");
        wanted.setEmail(run + "@example.com");
        wanted.setCurrency(Currency.USD);
        wanted.setTimeZone("Europe/Berlin");
        account = accounts.createAccount(wanted, options);
        equal("name", "Jörg Müller", account.getName());
        equal("currency", Currency.USD, account.getCurrency());
        equal("time zone", "Europe/Berlin", account.getTimeZone());
        equal("by key", account.getAccountId(),
                accounts.getAccountByKey("account " + run + " %&/+", options).getAccountId());
        Account change = new Account();
        change.setCity("Köln");
        accounts.updateAccount(account.getAccountId(), change, options);
        Account changed = accounts.getAccount(account.getAccountId(), true, true, AuditLevel.FULL, options);
        equal("city", "Köln", changed.getCity());
        equal("name kept", "Jörg Müller", changed.getName());
        equal("balance", 0, changed.getAccountBalance().signum());
        equal("audit", List.of("INSERT", "UPDATE"), changeTypes(changed.getAuditLogs()));
        equal("who", "java", changed.getAuditLogs().get(0).getChangedBy());
        equal("why", "check", changed.getAuditLogs().get(0).getReasonCode());
        Accounts found = accounts.searchAccounts(run + "@example.com", options);
        equal("found", account.getAccountId(), found.get(0).getAccountId());
    }

    private void paymentMethods() throws KillBillClientException {
        external = addMethod(EXTERNAL, true);
        test = addMethod(TEST, false);
        equal("default", true, external.isDefault());
        UUID id = account.getAccountId();
        equal("default of the account", external.getPaymentMethodId(),
                accounts.getAccount(id, options).getPaymentMethodId());
        accounts.setDefaultPaymentMethod(id, test.getPaymentMethodId(), Map.of(), options);
        equal("now the default", test.getPaymentMethodId(), accounts.getAccount(id, options).getPaymentMethodId());
        accounts.setDefaultPaymentMethod(id, external.getPaymentMethodId(), Map.of(), options);
        PaymentMethod third = addMethod(TEST, false);
        methods.deletePaymentMethod(third.getPaymentMethodId(), Map.of(), options);
        PaymentMethods left = accounts.getPaymentMethodsForAccount(id, Map.of(), options);
        equal("left", 2, left.size());
        PaymentMethod read = methods.getPaymentMethod(test.getPaymentMethodId(), Map.of(), options);
        equal("plugin", TEST, read.getPluginName());
        refused("the default is in use", 400, 7022,
                () -> methods.deletePaymentMethod(external.getPaymentMethodId(), Map.of(), options));
    }

    private void authorizeCaptureRefund() throws KillBillClientException {
        Payment payment = pay(TransactionType.AUTHORIZE, "100.00", external, Map.of());
        amount("authorized", "100", payment.getAuthAmount());
        UUID id = payment.getPaymentId();
        payments.captureAuthorization(id, of("30.50"), null, Map.of(), options);
        payment = payments.captureAuthorization(id, of("19.50"), null, Map.of(), options);
        amount("captured", "50", payment.getCapturedAmount());
        refused("more than is authorized", 400, 7031,
                () -> payments.captureAuthorization(id, of("50.01"), null, Map.of(), options));
        payment = payments.refundPayment(id, of("12.34"), null, Map.of(), options);
        amount("refunded", "12.34", payment.getRefundedAmount());
        refused("more than was captured", 400, 7031,
                () -> payments.refundPayment(id, of("37.67"), null, Map.of(), options));
        payment = payments.refundPayment(id, of("37.66"), null, Map.of(), options);
        amount("all refunded", "50", payment.getRefundedAmount());
        List<TransactionType> types = payment.getTransactions().stream()
                .map(PaymentTransaction::getTransactionType).collect(Collectors.toList());
        equal("transactions", List.of(TransactionType.AUTHORIZE, TransactionType.CAPTURE, TransactionType.CAPTURE,
                TransactionType.REFUND, TransactionType.REFUND), types);
        equal("by transaction", id, transactions.getPaymentByTransactionId(
                payment.getTransactions().get(1).getTransactionId(), Map.of(), options).getPaymentId());
    }

    private void voidAuthorization() throws KillBillClientException {
        UUID id = pay(TransactionType.AUTHORIZE, "7.00", external, Map.of()).getPaymentId();
        payments.voidPayment(id, new PaymentTransaction(), null, Map.of(), options);
        Payment payment = payments.getPayment(id, Map.of(), options);
        amount("nothing is authorized", "0", payment.getAuthAmount());
        refused("after a void", 400, 7032,
                () -> payments.captureAuthorization(id, of("1.00"), null, Map.of(), options));
    }

    private void chargeback() throws KillBillClientException {
        UUID id = pay(TransactionType.PURCHASE, "20.00", external, Map.of()).getPaymentId();
        PaymentTransaction taken = of("5.00");
        taken.setTransactionExternalKey("chargeback-" + run);
        amount("after the chargeback", "15",
                payments.chargebackPayment(id, taken, null, Map.of(), options).getPurchasedAmount());
        PaymentTransaction back = new PaymentTransaction();
        back.setTransactionExternalKey("chargeback-" + run);
        Payment payment = payments.chargebackReversalPayment(id, back, null, Map.of(), options);
        amount("after its reversal", "20", payment.getPurchasedAmount());
        PaymentTransaction last = payment.getTransactions().get(2);
        equal("the reversal shows as a failed chargeback", TransactionStatus.PAYMENT_FAILURE, last.getStatus());
    }

    private void credit() throws KillBillClientException {
        amount("credited", "3.21", pay(TransactionType.CREDIT, "3.21", external, Map.of()).getCreditedAmount());
    }

    private void complete() throws KillBillClientException {
        Payment payment = pay(TransactionType.PURCHASE, "8.00", test, PENDING);
        equal("pending", TransactionStatus.PENDING, payment.getTransactions().get(0).getStatus());
        payments.completeTransaction(payment.getPaymentId(), new PaymentTransaction(), null, Map.of(), options);
        amount("completed", "8", payments.getPayment(payment.getPaymentId(), Map.of(), options).getPurchasedAmount());
    }

    private void notifyOfFailure() throws KillBillClientException {
        Payment payment = pay(TransactionType.PURCHASE, "8.00", test, PENDING);
        PaymentTransaction ended = new PaymentTransaction();
        ended.setPaymentId(payment.getPaymentId());
        ended.setStatus(TransactionStatus.PAYMENT_FAILURE);
        UUID transaction = payment.getTransactions().get(0).getTransactionId();
        Payment notified = transactions.notifyStateChanged(transaction, ended, null, options);
        equal("failed", TransactionStatus.PAYMENT_FAILURE, notified.getTransactions().get(0).getStatus());
    }

    private void decline() throws KillBillClientException {
        PaymentTransaction wanted = of("9.00");
        wanted.setTransactionType(TransactionType.PURCHASE);
        wanted.setPaymentExternalKey("declined-" + run);
        wanted.setTransactionExternalKey("declined-" + run + "-1");
        UUID method = test.getPaymentMethodId();
        // 402 with a Location: the client follows it, and the payment tells.
        Payment payment = accounts.processPayment(account.getAccountId(), wanted, method, null, ERROR, options);
        equal("status", TransactionStatus.PAYMENT_FAILURE, payment.getTransactions().get(0).getStatus());
        equal("by key", payment.getPaymentId(),
                payments.getPaymentByExternalKey("declined-" + run, Map.of(), options).getPaymentId());
        Payment again = accounts.processPayment(account.getAccountId(), wanted, method, null, Map.of(), options);
        equal("the same payment", payment.getPaymentId(), again.getPaymentId());
        amount("paid at the second try", "9", again.getPurchasedAmount());
        refused("a third time", 400, 7030,
                () -> accounts.processPayment(account.getAccountId(), wanted, method, null, Map.of(), options));
    }

    private void fixUnknown() throws KillBillClientException {
        PaymentTransaction wanted = of("6.00");
        wanted.setTransactionType(TransactionType.PURCHASE);
        wanted.setPaymentExternalKey("unknown-" + run);
        UUID method = test.getPaymentMethodId();
        // 503 with a Location: the client follows it, too.
        Payment payment = accounts.processPayment(account.getAccountId(), wanted, method, null, UNDEFINED, options);
        PaymentTransaction transaction = payment.getTransactions().get(0);
        equal("unknown", TransactionStatus.UNKNOWN, transaction.getStatus());
        refused("no second charge meanwhile", 400, 7032,
                () -> accounts.processPayment(account.getAccountId(), wanted, method, null, Map.of(), options));
        AdminPayment word = new AdminPayment();
        word.setLastSuccessPaymentState("PURCHASE_SUCCESS");
        word.setCurrentPaymentStateName("PURCHASE_SUCCESS");
        word.setTransactionStatus("SUCCESS");
        new AdminApi(client).updatePaymentTransactionState(
                payment.getPaymentId(), transaction.getTransactionId(), word, options);
        amount("fixed", "6", payments.getPayment(payment.getPaymentId(), Map.of(), options).getPurchasedAmount());
    }

    private void refusals() {
        Account taken = new Account();
        taken.setExternalKey(account.getExternalKey());
        taken.setCurrency(Currency.USD);
        refused("a key that is taken", 409, 3000, () -> accounts.createAccount(taken, options));
        refused("more decimals than USD has", 400, 7031,
                () -> pay(TransactionType.PURCHASE, "1.001", external, Map.of()));
        refused("a negative amount", 400, 7031,
                () -> pay(TransactionType.PURCHASE, "-1.00", external, Map.of()));
        PaymentMethod nobodys = new PaymentMethod();
        nobodys.setPluginName("nobody");
        nobodys.setPluginInfo(new PaymentMethodPluginDetail());
        refused("an unknown plugin", 400, 7028,
                () -> accounts.createPaymentMethod(account.getAccountId(), nobodys, null, Map.of(), options));
    }

    private void pages() throws KillBillClientException {
        for (int more = 0; more < 4; more++) {
            Account another = new Account();
            another.setCurrency(Currency.EUR);
            accounts.createAccount(another, options);
        }
        int seen = 0;
        Accounts page = accounts.getAccounts(0L, 2L, false, false, AuditLevel.MINIMAL, options);
        equal("total", 5, page.getPaginationTotalNbRecords());
        while (page != null && !page.isEmpty()) {
            seen += page.size();
            equal("audit of each", "INSERT", page.get(0).getAuditLogs().get(0).getChangeType());
            page = page.getPaginationNextPageUri() == null ? null : page.getNext(Accounts.class);
        }
        equal("seen", 5, seen);
        Payments first = payments.getPayments(0L, 3L, null, false, false, Map.of(), AuditLevel.NONE, options);
        equal("payments on a page", 3, first.size());
        equal("next page", 3, first.getNext(Payments.class).size());
        Payments all = accounts.getPaymentsForAccount(account.getAccountId(), Map.of(), options);
        equal("payments of the account", all.size(), first.getPaginationTotalNbRecords());
        Payments found = payments.searchPayments("declined-" + run, null, Map.of(), options);
        equal("found", 1, found.size());
    }

    private void history() throws KillBillClientException {
        AuditLogs logs = accounts.getAccountAuditLogsWithHistory(account.getAccountId(), options);
        equal("first", "INSERT", logs.get(0).getChangeType());
        equal("kind", "ACCOUNT", String.valueOf(logs.get(0).getObjectType()));
        Payment payment = pay(TransactionType.AUTHORIZE, "2.00", external, Map.of());
        payments.captureAuthorization(payment.getPaymentId(), of("2.00"), null, Map.of(), options);
        Payment audited = payments.getPayment(
                payment.getPaymentId(), false, false, Map.of(), AuditLevel.FULL, options);
        equal("payment", "INSERT", audited.getAuditLogs().get(0).getChangeType());
        equal("then", "UPDATE", audited.getAuditLogs().get(audited.getAuditLogs().size() - 1).getChangeType());
        equal("transaction", "INSERT",
                audited.getTransactions().get(0).getAuditLogs().get(0).getChangeType());
    }

    private void combo() throws KillBillClientException {
        Account payer = new Account();
        payer.setExternalKey("combo-" + run);
        payer.setCurrency(Currency.EUR);
        PaymentMethod method = new PaymentMethod();
        method.setExternalKey("combo-" + run);
        method.setPluginName(TEST);
        method.setPluginInfo(new PaymentMethodPluginDetail());
        PaymentTransaction wanted = new PaymentTransaction();
        wanted.setTransactionType(TransactionType.PURCHASE);
        wanted.setAmount(new BigDecimal("4.00"));
        wanted.setPaymentExternalKey("combo-" + run);
        ComboPaymentTransaction combo = new ComboPaymentTransaction();
        combo.setAccount(payer);
        combo.setPaymentMethod(method);
        combo.setTransaction(wanted);
        Payment payment = payments.createComboPayment(combo, null, options);
        amount("paid", "4", payment.getPurchasedAmount());
        equal("the account", accounts.getAccountByKey("combo-" + run, options).getAccountId(), payment.getAccountId());
        equal("its method", payment.getPaymentMethodId(),
                accounts.getAccount(payment.getAccountId(), options).getPaymentMethodId());
        wanted.setPaymentExternalKey("combo-again-" + run);
        Payment again = payments.createComboPayment(combo, null, options);
        equal("the same account", payment.getAccountId(), again.getAccountId());
        equal("the same method", payment.getPaymentMethodId(), again.getPaymentMethodId());
        payer.setCurrency(Currency.USD);
        refused("another currency than the account's", 400, 7031,
                () -> payments.createComboPayment(combo, null, options));
    }

    private void roles() throws KillBillClientException {
        SecurityApi security = new SecurityApi(client);
        RoleDefinition role = new RoleDefinition();
        role.setRole("reader-" + run);
        role.setPermissions(List.of("account:create"));
        security.addRoleDefinition(role, options);
        UserRoles user = new UserRoles();
        user.setUsername("ann-" + run);
        user.setPassword("a password");
        user.setRoles(List.of("reader-" + run));
        security.addUserRoles(user, options);
        RequestOptions ann = RequestOptions.builder().withCreatedBy("ann").withUser("ann-" + run)
                .withPassword("a password").build();
        equal("reads", account.getAccountId(), accounts.getAccount(account.getAccountId(), ann).getAccountId());
        Account change = new Account();
        change.setCity("Bonn");
        refused("may not update", 401, null, () -> accounts.updateAccount(account.getAccountId(), change, ann));
    }

    private PaymentMethod addMethod(String plugin, boolean isDefault) throws KillBillClientException {
        PaymentMethod method = new PaymentMethod();
        method.setPluginName(plugin);
        method.setPluginInfo(new PaymentMethodPluginDetail());
        return accounts.createPaymentMethod(
                account.getAccountId(), method, isDefault, false, null, Map.of(), options);
    }

    private Payment pay(TransactionType type, String amount, PaymentMethod method, Map<String, String> properties)
            throws KillBillClientException {
        PaymentTransaction transaction = of(amount);
        transaction.setTransactionType(type);
        return accounts.processPayment(
                account.getAccountId(), transaction, method.getPaymentMethodId(), null, properties, options);
    }

    private static PaymentTransaction of(String amount) {
        PaymentTransaction transaction = new PaymentTransaction();
        transaction.setAmount(new BigDecimal(amount));
        transaction.setCurrency(Currency.USD);
        return transaction;
    }

    private static List<String> changeTypes(List<AuditLog> logs) {
        return logs.stream().map(AuditLog::getChangeType).collect(Collectors.toList());
    }
}
