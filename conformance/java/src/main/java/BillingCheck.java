import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import org.killbill.billing.catalog.api.BillingActionPolicy;
import org.killbill.billing.catalog.api.Currency;
import org.killbill.billing.catalog.api.PhaseType;
import org.killbill.billing.catalog.api.ProductCategory;
import org.killbill.billing.client.KillBillClientException;
import org.killbill.billing.client.KillBillHttpClient;
import org.killbill.billing.client.RequestOptions;
import org.killbill.billing.client.api.gen.AccountApi;
import org.killbill.billing.client.api.gen.BundleApi;
import org.killbill.billing.client.api.gen.CatalogApi;
import org.killbill.billing.client.api.gen.InvoiceApi;
import org.killbill.billing.client.api.gen.SubscriptionApi;
import org.killbill.billing.client.api.gen.TenantApi;
import org.killbill.billing.client.model.InvoiceItems;
import org.killbill.billing.client.model.InvoicePayments;
import org.killbill.billing.client.model.Invoices;
import org.killbill.billing.client.model.gen.Account;
import org.killbill.billing.client.model.gen.AccountTimeline;
import org.killbill.billing.client.model.gen.Bundle;
import org.killbill.billing.client.model.gen.EventSubscription;
import org.killbill.billing.client.model.gen.Invoice;
import org.killbill.billing.client.model.gen.InvoiceDryRun;
import org.killbill.billing.client.model.gen.InvoiceItem;
import org.killbill.billing.client.model.gen.InvoicePayment;
import org.killbill.billing.client.model.gen.PaymentMethod;
import org.killbill.billing.client.model.gen.PaymentMethodPluginDetail;
import org.killbill.billing.client.model.gen.PlanDetail;
import org.killbill.billing.client.model.gen.Subscription;
import org.killbill.billing.client.model.gen.Tenant;
import org.killbill.billing.entitlement.api.Entitlement.EntitlementActionPolicy;
import org.killbill.billing.entitlement.api.Entitlement.EntitlementState;
import org.killbill.billing.invoice.api.DryRunType;
import org.killbill.billing.invoice.api.InvoiceItemType;
import org.killbill.billing.invoice.api.InvoiceStatus;
import org.killbill.billing.util.api.AuditLevel;

/** Subscriptions and invoices through Kill Bill's official Java client, unchanged. */
class BillingCheck extends Steps {
    private static final UUID AUTO_PAY_OFF = UUID.fromString("00000000-0000-0000-0000-000000000001");
    private static final String TRIAL = "<initialPhases><phase type='TRIAL'><duration><unit>DAYS</unit>"
            + "<number>30</number></duration><fixed><fixedPrice/></fixed></phase></initialPhases>";
    private static final String CATALOG = "<?xml version='1.0' encoding='UTF-8'?><catalog>"
            + "<effectiveDate>2020-01-01T00:00:00+00:00</effectiveDate><catalogName>Java</catalogName>"
            + "<recurringBillingMode>IN_ADVANCE</recurringBillingMode>"
            + "<currencies><currency>USD</currency></currencies><units/><products>"
            + product("Small", "BASE") + product("Large", "BASE") + product("Extra", "ADD_ON") + "</products><rules>"
            + "<changePolicy><changePolicyCase><policy>IMMEDIATE</policy></changePolicyCase></changePolicy>"
            + "<cancelPolicy><cancelPolicyCase><policy>END_OF_TERM</policy></cancelPolicyCase></cancelPolicy></rules>"
            + "<plans>" + plan("small", "Small", TRIAL, "10.00") + plan("large", "Large", "", "30.00")
            + plan("extra", "Extra", "", "3.00") + "</plans><priceLists><defaultPriceList name='DEFAULT'><plans>"
            + "<plan>small</plan><plan>large</plan><plan>extra</plan></plans></defaultPriceList></priceLists>"
            + "</catalog>";

    private final String run = UUID.randomUUID().toString().substring(0, 8);
    private final RequestOptions options = RequestOptions.builder().withCreatedBy("java").build();
    private final String url;
    private final KillBillHttpClient client;
    private final AccountApi accounts;
    private final InvoiceApi invoices;
    private final SubscriptionApi subscriptions;

    private UUID account;
    private Subscription base;

    BillingCheck(String url) {
        this.url = url;
        client = new KillBillHttpClient(url, "admin", "password", "billing-" + run, "secret");
        accounts = new AccountApi(client);
        invoices = new InvoiceApi(client);
        subscriptions = new SubscriptionApi(client);
    }

    void all() {
        step("a catalog is uploaded and listed", this::catalog);
        step("an account subscribes, with an add-on", this::subscribe);
        step("a month is billed and paid", this::bill);
        step("a plan is changed, and the difference invoiced", this::change);
        step("an invoice is shown before there is one", this::dryRun);
        step("an invoice is paid externally", this::external);
        step("a bundle pauses and goes on", this::bundles);
        step("a subscription is cancelled", this::cancel);
        step("the clock is reset", () -> clock("POST", ""));
    }

    private static String product(String name, String category) {
        String available = category.equals("BASE") ? "<available><addonProduct>Extra</addonProduct></available>" : "";
        return "<product name='" + name + "'><category>" + category + "</category>" + available + "</product>";
    }

    private static String plan(String name, String product, String initial, String price) {
        return "<plan name='" + name + "'><product>" + product + "</product>" + initial
                + "<finalPhase type='EVERGREEN'><duration><unit>UNLIMITED</unit></duration><recurring>"
                + "<billingPeriod>MONTHLY</billingPeriod><recurringPrice><price><currency>USD</currency><value>"
                + price + "</value></price></recurringPrice></recurring></finalPhase></plan>";
    }

    /** The client has no API of the test clock. */
    private void clock(String method, String query) throws Exception {
        String basic = Base64.getEncoder().encodeToString("admin:password".getBytes(StandardCharsets.UTF_8));
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/1.0/kb/test/clock?timeoutSec=30" + query))
                .header("Authorization", "Basic " + basic).header("X-Killbill-ApiKey", "billing-" + run)
                .header("X-Killbill-ApiSecret", "secret").header("X-Killbill-CreatedBy", "java")
                .header("Content-Type", "application/json").method(method, BodyPublishers.noBody()).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        equal("clock: " + answer.body(), 200, answer.statusCode());
    }

    private void catalog() throws KillBillClientException {
        Tenant tenant = new Tenant();
        tenant.setApiKey("billing-" + run);
        tenant.setApiSecret("secret");
        new TenantApi(client).createTenant(tenant, options);
        CatalogApi catalogs = new CatalogApi(client);
        catalogs.uploadCatalogXml(CATALOG, options);
        equal("name", "Java", catalogs.getCatalogJson(null, null, options).get(0).getName());
        List<String> plans = catalogs.getAvailableBasePlans(null, options).stream()
                .map(PlanDetail::getPlan).sorted().collect(Collectors.toList());
        equal("base plans", List.of("large", "small"), plans);
        equal("add-ons", "extra", catalogs.getAvailableAddons("Small", null, null, options).get(0).getPlan());
        refused("an empty catalog", 400, 2080, () -> catalogs.uploadCatalogXml("<catalog/>", options));
    }

    private void subscribe() throws KillBillClientException {
        Account wanted = new Account();
        wanted.setName("Ada");
        wanted.setCurrency(Currency.USD);
        wanted.setTimeZone("UTC");
        account = accounts.createAccount(wanted, options).getAccountId();
        PaymentMethod method = new PaymentMethod();
        method.setPluginName("__EXTERNAL_PAYMENT__");
        method.setPluginInfo(new PaymentMethodPluginDetail());
        accounts.createPaymentMethod(account, method, true, false, null, Map.of(), options);
        Subscription of = of("small");
        of.setExternalKey("sub-" + run);
        of.setBundleExternalKey("bundle-" + run);
        base = subscriptions.createSubscription(of, (LocalDate) null, null, Map.of(), options);
        equal("state", EntitlementState.ACTIVE, base.getState());
        equal("phase", PhaseType.TRIAL, base.getPhaseType());
        equal("category", ProductCategory.BASE, base.getProductCategory());
        equal("events", List.of("START_ENTITLEMENT", "START_BILLING", "PHASE"),
                base.getEvents().stream().map(it -> it.getEventType().name()).collect(Collectors.toList()));
        Subscription second = of("large");
        second.setBundleId(base.getBundleId());
        refused("a second base", 400, 1015,
                () -> subscriptions.createSubscription(second, (LocalDate) null, null, Map.of(), options));
        Subscription addOn = of("extra");
        addOn.setProductCategory(ProductCategory.ADD_ON);
        addOn.setBundleId(base.getBundleId());
        Subscription added = subscriptions.createSubscription(addOn, (LocalDate) null, null, Map.of(), options);
        equal("of the bundle", base.getBundleId(), added.getBundleId());
    }

    private static String plain(BigDecimal amount) {
        return amount.stripTrailingZeros().toPlainString();
    }

    private Subscription of(String plan) {
        Subscription wanted = new Subscription();
        wanted.setAccountId(account);
        wanted.setPlanName(plan);
        return wanted;
    }

    private Invoices listed(boolean isUnpaid) throws KillBillClientException {
        return accounts.getInvoicesForAccount(
                account, null, null, false, isUnpaid, false, true, null, AuditLevel.NONE, options);
    }

    private Subscription read() throws KillBillClientException {
        return subscriptions.getSubscription(base.getSubscriptionId(), options);
    }

    private void bill() throws Exception {
        clock("PUT", "&days=31");
        Invoices found = listed(false);
        List<String> items = found.stream().flatMap(it -> it.getItems().stream())
                .map(it -> it.getItemType() + " " + it.getPlanName() + " " + plain(it.getAmount()))
                .collect(Collectors.toList());
        for (String item : List.of("FIXED small 0", "RECURRING small 10", "RECURRING extra 3")) {
            equal(item + " in " + items, true, items.contains(item));
        }
        for (Invoice invoice : found) {
            amount("balance", "0", invoice.getBalance());
            equal("status", InvoiceStatus.COMMITTED, invoice.getStatus());
        }
        Invoice last = found.get(found.size() - 1);
        InvoicePayments paid = invoices.getPaymentsForInvoice(last.getInvoiceId(), options);
        equal("paid", last.getInvoiceId(), paid.get(0).getTargetInvoiceId());
        equal("by number", last.getInvoiceId(),
                invoices.getInvoiceByNumber(Integer.valueOf(last.getInvoiceNumber()), options).getInvoiceId());
        equal("payments", true, accounts.getInvoicePayments(account, Map.of(), options).size() >= 2);
        equal("phase", PhaseType.EVERGREEN, read().getPhaseType());
    }

    private void change() throws KillBillClientException {
        subscriptions.changeSubscriptionPlan(base.getSubscriptionId(), of("large"), (LocalDate) null, true, 5L,
                BillingActionPolicy.IMMEDIATE, Map.of(), options);
        equal("plan", "large", read().getPlanName());
        Invoices found = listed(false);
        List<InvoiceItemType> types = found.get(found.size() - 1).getItems().stream()
                .map(InvoiceItem::getItemType).sorted().collect(Collectors.toList());
        equal("items", true, types.containsAll(List.of(InvoiceItemType.RECURRING, InvoiceItemType.REPAIR_ADJ)));
    }

    private void dryRun() throws KillBillClientException {
        int before = listed(false).size();
        InvoiceDryRun upcoming = new InvoiceDryRun();
        upcoming.setDryRunType(DryRunType.UPCOMING_INVOICE);
        Invoice shown = invoices.generateDryRunInvoice(upcoming, account, null, Map.of(), options);
        equal("of the new plan", true, shown.getItems().stream().anyMatch(it -> "large".equals(it.getPlanName())));
        InvoiceDryRun target = new InvoiceDryRun();
        target.setDryRunType(DryRunType.TARGET_DATE);
        LocalDate past = LocalDate.parse("2020-02-01");
        Invoice none = invoices.generateDryRunInvoice(target, account, past, Map.of(), options);
        equal("nothing to invoice", null, none);
        equal("nothing is written", before, listed(false).size());
    }

    private void external() throws KillBillClientException {
        accounts.createAccountTags(account, List.of(AUTO_PAY_OFF), options);
        InvoiceItem charge = new InvoiceItem();
        charge.setAccountId(account);
        charge.setAmount(new BigDecimal("7.50"));
        charge.setCurrency(Currency.USD);
        InvoiceItems charges = new InvoiceItems();
        charges.add(charge);
        charges = invoices.createExternalCharges(account, charges, null, true, Map.of(), options);
        UUID invoice = charges.get(0).getInvoiceId();
        Invoice unpaid = listed(true).get(0);
        equal("unpaid", invoice, unpaid.getInvoiceId());
        amount("balance", "7.50", unpaid.getBalance());
        InvoicePayment body = new InvoicePayment();
        body.setAccountId(account);
        body.setTargetInvoiceId(invoice);
        body.setPurchasedAmount(new BigDecimal("7.50"));
        InvoicePayment paid = invoices.createInstantPayment(invoice, body, true, null, Map.of(), options);
        equal("of the invoice", invoice, paid.getTargetInvoiceId());
        amount("paid", "7.50", paid.getPurchasedAmount());
        equal("nothing is unpaid", 0, listed(true).size());
    }

    private void bundles() throws KillBillClientException {
        BundleApi bundles = new BundleApi(client);
        Bundle found = accounts.getAccountBundles(account, null, null, options).get(0);
        equal("key", "bundle-" + run, found.getExternalKey());
        equal("subscriptions", 2, found.getSubscriptions().size());
        equal("by key", found.getBundleId(), bundles.getBundleByKey("bundle-" + run, options).get(0).getBundleId());
        bundles.pauseBundle(found.getBundleId(), null, Map.of(), options);
        equal("paused", EntitlementState.BLOCKED, read().getState());
        bundles.resumeBundle(found.getBundleId(), null, Map.of(), options);
        List<EventSubscription> events = bundles.getBundle(found.getBundleId(), options).getTimeline().getEvents();
        equal("pause", true, events.stream().anyMatch(it -> it.getEventType().name().equals("PAUSE_ENTITLEMENT")));
        AccountTimeline timeline = accounts.getAccountTimeline(account, options);
        equal("bundles", 1, timeline.getBundles().size());
        equal("payments", true, timeline.getPayments().size() > 2 && timeline.getInvoices().size() > 2);
    }

    private void cancel() throws KillBillClientException {
        UUID id = base.getSubscriptionId();
        subscriptions.cancelSubscriptionPlan(id, (LocalDate) null, true, 5L, EntitlementActionPolicy.END_OF_TERM,
                BillingActionPolicy.END_OF_TERM, null, Map.of(), options);
        Subscription waiting = read();
        equal("state", EntitlementState.ACTIVE, waiting.getState());
        equal("end", waiting.getChargedThroughDate(), waiting.getBillingEndDate().toLocalDate());
        subscriptions.uncancelSubscriptionPlan(id, Map.of(), options);
        refused("nothing to take back", 400, 1070, () -> subscriptions.uncancelSubscriptionPlan(id, Map.of(), options));
        subscriptions.cancelSubscriptionPlan(id, (LocalDate) null, true, 5L, EntitlementActionPolicy.IMMEDIATE,
                BillingActionPolicy.IMMEDIATE, null, Map.of(), options);
        equal("state", EntitlementState.CANCELLED, read().getState());
        refused("again", 400, 1031, () -> subscriptions.cancelSubscriptionPlan(id, (LocalDate) null,
                EntitlementActionPolicy.IMMEDIATE, BillingActionPolicy.IMMEDIATE, Map.of(), options));
    }
}
