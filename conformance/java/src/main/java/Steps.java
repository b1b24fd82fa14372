import java.math.BigDecimal;
import java.util.Objects;
import org.killbill.billing.client.KillBillClientException;

/** Steps that are counted, and what they compare. */
class Steps {
    int passed;
    int failed;

    interface Step {
        void run() throws Exception;
    }

    void step(String name, Step step) {
        try {
            step.run();
            passed++;
            System.out.println("passed  " + name);
        } catch (Exception error) {
            failed++;
            System.out.println("FAILED  " + name + ": " + error);
        }
    }

    static void refused(String what, int status, Integer code, Step step) {
        try {
            step.run();
        } catch (KillBillClientException error) {
            equal(what + ": status", status, error.getResponse().statusCode());
            if (code != null) {
                equal(what + ": code", code, error.getBillingException().getCode());
            }
            return;
        } catch (Exception error) {
            throw new IllegalStateException(what + ": " + error, error);
        }
        throw new IllegalStateException(what + ": was not refused");
    }

    static void amount(String what, String expected, BigDecimal actual) {
        if (actual == null || actual.compareTo(new BigDecimal(expected)) != 0) {
            throw new IllegalStateException(what + ": expected " + expected + ", got " + actual);
        }
    }

    static void equal(String what, Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new IllegalStateException(what + ": expected " + expected + ", got " + actual);
        }
    }
}
