"""A catalog of the kind of SaaSOdoo's: three sizes, each by the month and by the year with a trial of 14 days, by the
month without a trial, and with a short trial for tests. No schema is named, and periods begin with the subscription."""

PRICES = {"basic": "5.00", "standard": "8.00", "premium": "10.00"}

TRIAL = """<initialPhases><phase type="TRIAL">
<duration><unit>DAYS</unit><number>{days}</number></duration>
<fixed><fixedPrice><price><currency>USD</currency><value>0</value></price></fixedPrice></fixed></phase></initialPhases>"""

PLAN = """<plan name="{name}"><product>{product}</product>{trial}<finalPhase type="EVERGREEN">
<duration><unit>UNLIMITED</unit></duration><recurring><billingPeriod>{period}</billingPeriod>
<recurringPrice><price><currency>USD</currency><value>{price}</value></price></recurringPrice></recurring>
</finalPhase></plan>"""

CATALOG = """<?xml version="1.0" encoding="UTF-8"?>
<catalog><effectiveDate>2024-01-01T00:00:00+00:00</effectiveDate><catalogName>SaaS</catalogName>
<recurringBillingMode>IN_ADVANCE</recurringBillingMode><currencies><currency>USD</currency></currencies><units/>
<products>{products}</products>
<rules>
<changePolicy><changePolicyCase><policy>IMMEDIATE</policy></changePolicyCase></changePolicy>
<changeAlignment><changeAlignmentCase><alignment>START_OF_SUBSCRIPTION</alignment></changeAlignmentCase>
</changeAlignment>
<cancelPolicy><cancelPolicyCase><policy>END_OF_TERM</policy></cancelPolicyCase></cancelPolicy>
<createAlignment><createAlignmentCase><alignment>START_OF_SUBSCRIPTION</alignment></createAlignmentCase>
</createAlignment>
<billingAlignment><billingAlignmentCase><alignment>SUBSCRIPTION</alignment></billingAlignmentCase></billingAlignment>
<priceList><priceListCase><toPriceList>DEFAULT</toPriceList></priceListCase></priceList>
</rules>
<plans>{plans}</plans>
<priceLists><defaultPriceList name="DEFAULT"><plans>{names}</plans></defaultPriceList></priceLists></catalog>"""

OVERDUE = """<overdueConfig><accountOverdueStates>
<initialReevaluationInterval><unit>DAYS</unit><number>1</number></initialReevaluationInterval>
<state name="BLOCKED"><condition><timeSinceEarliestUnpaidInvoiceEqualsOrExceeds><unit>DAYS</unit><number>14</number>
</timeSinceEarliestUnpaidInvoiceEqualsOrExceeds></condition><externalMessage>Blocked</externalMessage>
<blockChanges>true</blockChanges><disableEntitlementAndChangesBlocked>true</disableEntitlementAndChangesBlocked>
<autoReevaluationInterval><unit>DAYS</unit><number>1</number></autoReevaluationInterval></state>
</accountOverdueStates></overdueConfig>"""


def plans():
    """The plans, as name, product, period, price and days of trial."""
    for size, price in PRICES.items():
        yield f"{size}-monthly", size, "MONTHLY", price, 14
        yield f"{size}-annual", size, "ANNUAL", f"{10 * float(price):.2f}", 14
        yield f"{size}-immediate", size, "MONTHLY", price, 0
        yield f"{size}-test-trial", size, "MONTHLY", price, 1


def text():
    """The catalog's XML."""
    trial = lambda days: TRIAL.format(days=days) if days else ""
    made = [PLAN.format(name=name, product=product, period=period, price=price, trial=trial(days))
            for name, product, period, price, days in plans()]
    products = "".join(f'<product name="{it}"><category>BASE</category></product>' for it in PRICES)
    names = "".join(f"<plan>{name}</plan>" for name, *_ in plans())
    return CATALOG.format(products=products, plans="".join(made), names=names)
