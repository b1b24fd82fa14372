//! Catalogs for tests.

/// A version with a base product whose plan has a trial of 30 days, then 20.00 USD a month.
pub fn simple(name: &str, effective: &str) -> String {
    let price =
        |amount: &str| format!("<price><currency>USD</currency><value>{amount}</value></price>");
    let (free, month) = (price("0"), price("20.00"));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<catalog>\n\
         <effectiveDate>{effective}</effectiveDate>\n<catalogName>{name}</catalogName>\n\
         <recurringBillingMode>IN_ADVANCE</recurringBillingMode>\n\
         <currencies><currency>USD</currency></currencies>\n<units/>\n\
         <products><product name=\"Pro\"><category>BASE</category></product></products>\n\
         <rules>\n<changePolicy><changePolicyCase><policy>IMMEDIATE</policy></changePolicyCase></changePolicy>\n\
         <cancelPolicy><cancelPolicyCase><policy>IMMEDIATE</policy></cancelPolicyCase></cancelPolicy>\n</rules>\n\
         <plans><plan name=\"pro-monthly\" prettyName=\"canary\"><product>Pro</product>\n\
         <initialPhases><phase type=\"TRIAL\"><duration><unit>DAYS</unit><number>30</number></duration>\
         <fixed><fixedPrice>{free}</fixedPrice></fixed></phase></initialPhases>\n\
         <finalPhase type=\"EVERGREEN\"><duration><unit>UNLIMITED</unit></duration>\
         <recurring><billingPeriod>MONTHLY</billingPeriod><recurringPrice>{month}</recurringPrice></recurring>\
         </finalPhase></plan></plans>\n\
         <priceLists><defaultPriceList name=\"DEFAULT\"><plans><plan>pro-monthly</plan></plans>\
         </defaultPriceList></priceLists>\n</catalog>\n"
    )
}
