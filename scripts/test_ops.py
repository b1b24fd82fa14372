"""Tests of what ops/ holds, against the metrics that there are: python3 -m unittest discover scripts"""

import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALERTS = ROOT / "ops" / "alerts.yml"
DASHBOARDS = sorted((ROOT / "ops" / "grafana").glob("*.json"))

# Documented and drawn, and not yet counted by any code. A name leaves this list with the change that
# counts it: the test below fails where a name is here and in the code.
TO_COME = set()

NAME = re.compile(r"\b(?:faregate|user_service|billing_service|process)_[a-z0-9_]*[a-z0-9]\b")


def names(text):
    """The metrics that an expression asks for; of a histogram the histogram itself."""
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in NAME.findall(text)}


def documented():
    """What the tables of the reference name in their first column."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell) if name.islower()}


def counted():
    """What the code names in quotes, its own tests aside."""
    found = set()
    for path in ROOT.glob("crates/*/src/**/*.rs"):
        code = path.read_text().split("\n#[cfg(test)]")[0]
        found.update(re.findall(r'"((?:faregate|user_service|billing_service|process)_\w+)"', code))
    return found


def expressions(dashboard):
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


class Metrics(unittest.TestCase):
    def test_alerts_ask_for_what_the_reference_names(self):
        # Texts for people name pages and commands as well; only expressions are asked.
        rules = re.findall(r"expr: (\|\n(?:\s{10}.*\n)+|.*\n)", ALERTS.read_text())
        self.assertEqual(len(rules), ALERTS.read_text().count("expr:"))
        asked = set().union(*map(names, rules))
        self.assertGreater(len(asked), 10)
        self.assertEqual(asked - documented(), set())

    def test_dashboards_ask_for_what_the_reference_names(self):
        self.assertEqual([path.stem for path in DASHBOARDS], ["flags", "mail", "payments", "signup"])
        for path in DASHBOARDS:
            for panel, expression in expressions(json.loads(path.read_text())):
                with self.subTest(dashboard=path.stem, panel=panel):
                    self.assertTrue(names(expression))
                    self.assertEqual(names(expression) - documented(), set())

    def test_what_the_reference_names_is_counted_or_to_come(self):
        self.assertEqual(documented() - counted() - TO_COME, set())

    def test_what_is_to_come_is_documented_and_not_there_yet(self):
        self.assertEqual(TO_COME - documented(), set())
        self.assertEqual(TO_COME & counted(), set(), "is counted now: take it out of TO_COME")


class Alerts(unittest.TestCase):
    def test_each_has_a_case_in_which_it_fires(self):
        alerts = re.findall(r"- alert: (\w+)", ALERTS.read_text())
        cases = (ROOT / "ops" / "alerts_test.yml").read_text()
        fired = re.findall(r"alertname: (\w+)\n\s+eval_time: \w+\n\s+exp_alerts:", cases)
        self.assertEqual(set(alerts) - set(fired), set())
        self.assertEqual(len(alerts), len(set(alerts)))

    def test_the_reference_lists_each(self):
        page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
        for alert in re.findall(r"- alert: (\w+)", ALERTS.read_text()):
            self.assertIn(f"`{alert}`", page)


class Dashboards(unittest.TestCase):
    def test_each_has_its_data_source_as_a_variable(self):
        for path in DASHBOARDS:
            with self.subTest(dashboard=path.stem):
                dashboard = json.loads(path.read_text())
                variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
                self.assertEqual(variables["datasource"]["type"], "datasource")
                for panel in dashboard["panels"]:
                    for place in [panel, *panel["targets"]]:
                        self.assertEqual(place["datasource"]["uid"], "${datasource}")

    def test_panels_are_told_apart_and_do_not_overlap(self):
        for path in DASHBOARDS:
            with self.subTest(dashboard=path.stem):
                panels = json.loads(path.read_text())["panels"]
                self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
                taken = set()
                for panel in panels:
                    place = panel["gridPos"]
                    self.assertLessEqual(place["x"] + place["w"], 24)
                    cells = {
                        (x, y)
                        for x in range(place["x"], place["x"] + place["w"])
                        for y in range(place["y"], place["y"] + place["h"])
                    }
                    self.assertEqual(taken & cells, set(), panel["title"])
                    taken |= cells


MANIFESTS = ROOT / "ops" / "kubernetes"


def workloads(name):
    """The StatefulSets and Deployments of a manifest, by name."""
    documents = (MANIFESTS / name).read_text().split("\n---\n")
    named = ((re.search(r"^  name: (\S+)$", text, re.M), text) for text in documents)
    return {found[1]: text for found, text in named if re.search(r"^kind: (StatefulSet|Deployment)$", text, re.M)}


def settings(text):
    """The settings that a manifest gives: by name, each with its value."""
    listed = re.findall(r'- name: (FAREGATE_\w+)\n\s+value: "?([^"\n]+)"?', text)
    return dict(listed) | dict(re.findall(r"^ +(FAREGATE_\w+): (.+)$", text, re.M))


class Manifests(unittest.TestCase):
    def signing_up(self):
        payments = workloads("processors.yaml")["faregate-payment"]
        single = workloads("single/faregate.yaml")["faregate"]
        return {"front": workloads("fronts.yaml")["faregate-front"], "payment": payments, "single": single}

    def test_one_pod_owns_the_payments_and_is_admitted_to(self):
        single = workloads("single/faregate.yaml")["faregate"]
        self.assertIn("  replicas: 1\n", single)
        self.assertIn("    type: Recreate\n", single)
        policies = (MANIFESTS / "single" / "network.yaml").read_text()
        self.assertIn("podSelector: {}\n  policyTypes: [Ingress]\n---", policies, "nobody is admitted unasked")
        self.assertIn("      app: faregate\n", policies)
        port = settings((MANIFESTS / "single" / "settings.yaml").read_text())["FAREGATE_OPERATIONS_LISTEN"].rsplit(":", 1)[1]
        self.assertIn(f"- name: metrics\n              containerPort: {port}\n", single)
        self.assertNotIn("targetPort: metrics", (MANIFESTS / "single" / "faregate.yaml").read_text())
        resources = (MANIFESTS / "single" / "kustomization.yaml").read_text()
        for path in (MANIFESTS / "single").glob("*.yaml"):
            if path.name != "kustomization.yaml":
                self.assertIn(f"  - {path.name}\n", resources)

    def test_every_setting_is_one(self):
        known = set(re.findall(r"FAREGATE_\w+", (ROOT / "docs" / "reference" / "configuration.md").read_text()))
        for path in [*MANIFESTS.rglob("*.yaml"), ROOT / "ops" / "compose.yaml"]:
            with self.subTest(manifest=path.name):
                self.assertEqual(set(settings(path.read_text())) - known, set())

    def test_whoever_signs_people_up_or_sends_mail_has_the_files(self):
        secret = (MANIFESTS / "secret.example.yaml").read_text()
        shared = settings((MANIFESTS / "settings.yaml").read_text())
        for name, text in self.signing_up().items():
            with self.subTest(workload=name):
                self.assertIn("secretName: faregate-files\n", text)
                mounted = re.search(r"- name: files\n\s+mountPath: (\S+)\n\s+readOnly: true", text)[1]
                for setting in [
                    "FAREGATE_SIGNUP_KEY_FILE",
                    "FAREGATE_FLAGS_KEY_FILE",
                    "FAREGATE_MAIL_SMTP_PASSWORD_FILE",
                ]:
                    folder, file = (shared | settings(text))[setting].rsplit("/", 1)
                    self.assertEqual(folder, mounted)
                    self.assertRegex(secret, rf"(?m)^  {re.escape(file)}: ")
        self.assertIn("\n  name: faregate-files\n", secret)

    def of_the_cluster(self):
        return workloads("fronts.yaml") | workloads("processors.yaml")

    def test_fronts_and_processors_sign_their_records_and_encrypt_their_connections(self):
        secret = (MANIFESTS / "secret.example.yaml").read_text()
        shared = settings((MANIFESTS / "settings.yaml").read_text())
        self.assertEqual(shared["FAREGATE_KAFKA_SECURITY_PROTOCOL"], "sasl_ssl")
        self.assertEqual(sorted(self.of_the_cluster()), ["faregate-balance", "faregate-front", "faregate-payment"])
        for name, text in self.of_the_cluster().items():
            with self.subTest(workload=name):
                mounted = re.search(r"- name: kafka\n\s+mountPath: (\S+)\n\s+readOnly: true", text)[1]
                self.assertIn("secretName: faregate-kafka\n            defaultMode: 0440\n", text)
                for setting in ["FAREGATE_KAFKA_KEY_FILE", "FAREGATE_KAFKA_SSL_CA"]:
                    folder, file = (shared | settings(text))[setting].rsplit("/", 1)
                    self.assertEqual(folder, mounted)
                    self.assertIn(f"{{key: {file}, path: {file}}}", text)
                    self.assertRegex(secret, rf"(?m)^  {re.escape(file)}: ")
                user = settings(text)["FAREGATE_KAFKA_SASL_USERNAME"].removeprefix("faregate-")
                self.assertIn(f"key: {user}-password\n", text)
                self.assertRegex(secret, rf"(?m)^  {user}-password: ")

    def test_every_pod_is_admitted_by_a_network_policy_or_serves_nothing(self):
        policies = (MANIFESTS / "network.yaml").read_text()
        self.assertIn("podSelector: {}\n  policyTypes: [Ingress]\n---", policies, "nobody is admitted unasked")
        for name in self.of_the_cluster():
            self.assertRegex(policies.rsplit("name: kafka", 1)[1], rf"\b{name}\b", "reaches the brokers")
            self.assertRegex(policies.rsplit("name: kafka", 1)[0], rf"\b{name}\b")
        self.assertIn("  - network.yaml\n", (MANIFESTS / "kustomization.yaml").read_text())

    def test_metrics_have_a_port_that_no_service_leads_to(self):
        shared = settings((MANIFESTS / "settings.yaml").read_text())
        port = shared["FAREGATE_OPERATIONS_LISTEN"].rsplit(":", 1)[1]
        for name in ["fronts.yaml", "processors.yaml"]:
            for workload, text in workloads(name).items():
                with self.subTest(workload=workload):
                    self.assertIn(f"- name: metrics\n              containerPort: {port}\n", text)
            self.assertNotIn("targetPort: metrics", (MANIFESTS / name).read_text())

    def test_mail_goes_to_a_server(self):
        shared = settings((MANIFESTS / "settings.yaml").read_text())
        self.assertEqual(shared["FAREGATE_MAIL_TRANSPORT"], "smtp")
        self.assertIn("FAREGATE_MAIL_SMTP_HOST", shared)
        self.assertIn("FAREGATE_MAIL_BASE_URL", shared)

    def test_no_more_passwords_are_hashed_at_once_than_cpu_is_requested(self):
        for name, text in self.signing_up().items():
            with self.subTest(workload=name):
                threads = int(settings(text)["FAREGATE_SIGNUP_HASHING_THREADS"])
                cpus = int(re.search(r'requests:\n\s+cpu: "(\d+)"', text)[1])
                self.assertLessEqual(threads, cpus)


class Image(unittest.TestCase):
    def test_it_has_tls_and_scram_towards_kafka(self):
        text = (ROOT / "ops" / "Dockerfile").read_text()
        self.assertRegex(text, r"cargo build .*--package faregate-bench --features faregate/kafka_tls")
        self.assertRegex(text, r"install --yes .*\bperl\b", "OpenSSL is built with it")


class Service(unittest.TestCase):
    def test_systemd_waits_longer_than_the_server_drains(self):
        settings = (ROOT / "config.default.toml").read_text()
        drain_s = int(re.search(r'^drain_deadline = "(\d+)s"', settings, re.M).group(1))
        unit = (ROOT / "ops" / "systemd" / "faregate.service").read_text()
        stop_s = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M).group(1))
        self.assertGreaterEqual(stop_s, drain_s + 5)


if __name__ == "__main__":
    unittest.main()
