#!/usr/bin/env bash
# Kill Bill (killbill-invoice 0.24.15): with the cycle day 31, 29 or 30 days from the end of February cost more than the
# whole month to March 31.
#
# A part after the last whole period is measured by one period from that day on: from February 28 the 28 days until
# March 28. The cycle itself goes to March 31. A monthly subscription that ends, changes or is paused on March 29 pays
# 29/28 of its price, on March 30 30/28, and on March 31, with a day more, 1. In leap years it is 30/29, and with the
# cycle days 29 and 30 it is shorter or nothing. Who prorates must not take for granted that a part is at most a whole.
#
# Seen on 2026-12-01:
#   2027-02-28 2027-03-28 1.000000000
#   2027-02-28 2027-03-29 1.035714286
#   2027-02-28 2027-03-30 1.071428571
#   2027-02-28 2027-03-31 1
#
# Needs Java 11 or later, Maven (to download some 100 MB) and a minute. Fails where Kill Bill computes otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>part</groupId><artifactId>part</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.kill-bill.billing</groupId><artifactId>killbill-invoice</artifactId><version>0.24.15</version>
    </dependency>
  </dependencies>
</project>
XML
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib

cat >Part.java <<'JAVA'
import java.lang.reflect.Proxy;
import org.joda.time.LocalDate;
import org.killbill.billing.catalog.api.BillingMode;
import org.killbill.billing.catalog.api.BillingPeriod;
import org.killbill.billing.invoice.generator.FixedAndRecurringInvoiceItemGenerator;
import org.killbill.billing.util.config.definition.InvoiceConfig;
import org.killbill.billing.util.config.definition.InvoiceConfig.InArrearMode;

/** The last item of a monthly subscription from January 31 that ends on a day, with its part of the price. */
class Part {
  public static void main(String[] ends) throws Exception {
    InvoiceConfig defaults = (InvoiceConfig) Proxy.newProxyInstance(Part.class.getClassLoader(),
        new Class<?>[] {InvoiceConfig.class},
        (proxy, method, arguments) -> method.getReturnType() == int.class ? (Object) 0
            : method.getReturnType() == InArrearMode.class ? InArrearMode.DEFAULT : null);
    var generator = new FixedAndRecurringInvoiceItemGenerator(defaults, null);
    for (String end : ends) {
      var start = new LocalDate("2027-01-31");
      var until = new LocalDate(end);
      var items = generator.generateInvoiceItemData(start, until, until, 31, BillingPeriod.MONTHLY,
          BillingMode.IN_ARREAR, null).getItemData();
      var last = items.get(items.size() - 1);
      System.out.println(last.getStartDate() + " " + last.getEndDate() + " " + last.getNumberOfCycles());
    }
  }
}
JAVA
java -cp 'lib/*' Part.java 2027-03-28 2027-03-29 2027-03-30 2027-03-31 2>errors >parts || { cat errors; exit 1; }
cat parts
diff parts - <<'SEEN'
2027-02-28 2027-03-28 1.000000000
2027-02-28 2027-03-29 1.035714286
2027-02-28 2027-03-30 1.071428571
2027-02-28 2027-03-31 1
SEEN
