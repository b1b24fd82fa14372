// The three tutorials, by the Go client that openapi-generator makes of /openapi.json: the steps of check.ts.
// Arguments: the server's URL, and the directory into which it writes mails.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"faregate"
)

const by = "generated"

var (
	url, mails     string
	name           = "go-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	secret         string
	passed, failed int
)

func check(what string, holds bool, found ...any) {
	if holds {
		passed++
	} else {
		failed++
		fmt.Println("FAILED", what+":", found)
	}
}

// must ends the program: what comes next needs the answer.
func must[T any](value T, _ *http.Response, err error) T {
	if err != nil {
		var api *faregate.GenericOpenAPIError
		if errors.As(err, &api) {
			panic(string(api.Body()))
		}
		panic(err)
	}
	return value
}

func client(headers map[string]string) *faregate.APIClient {
	configuration := faregate.NewConfiguration()
	configuration.Servers = faregate.ServerConfigurations{{URL: url}}
	configuration.DefaultHeader = headers
	return faregate.NewAPIClient(configuration)
}

func operator(ctx context.Context) context.Context {
	return context.WithValue(ctx, faregate.ContextBasicAuth, faregate.BasicAuth{UserName: "admin", Password: "password"})
}

func ofTenant() map[string]string {
	return map[string]string{"X-Killbill-ApiKey": name, "X-Killbill-ApiSecret": secret}
}

func created(response *http.Response) string {
	path := strings.TrimRight(response.Header.Get("Location"), "/")
	return path[strings.LastIndex(path, "/")+1:]
}

func body(err error) string {
	var api *faregate.GenericOpenAPIError
	if errors.As(err, &api) {
		return string(api.Body())
	}
	return fmt.Sprint(err)
}

func tenant(ctx context.Context) {
	api := client(nil).TenantAPI
	made, response, err := api.CreateTenant(operator(ctx)).NewTenant(*faregate.NewNewTenant(name)).Execute()
	check("a tenant is created", err == nil && response.StatusCode == 201, err)
	secret = made.GetApiSecret()
	check("its secret is shown", len(secret) >= 32, len(secret))
	_, response, err = api.CreateTenant(operator(ctx)).NewTenant(*faregate.NewNewTenant(name)).Execute()
	check("a second one of its key is a problem", err != nil && response.StatusCode == 409, err)
}

func amount(value float64) faregate.TransactionRequest {
	request := faregate.NewTransactionRequest()
	request.SetAmount(value)
	return *request
}

func firstPayment(ctx context.Context, api *faregate.APIClient) {
	ada := faregate.NewAccountRequest()
	ada.SetName("Ada")
	ada.SetEmail("ada@example.com")
	ada.SetCurrency("EUR")
	response, err := api.AccountAPI.AccountCreate(ctx).XKillbillCreatedBy(by).AccountRequest(*ada).Execute()
	check("an account is created", err == nil && response.StatusCode == 201, err)
	account := created(response)
	external := faregate.NewPaymentMethodRequest()
	external.SetPluginName("__EXTERNAL_PAYMENT__")
	response, err = api.AccountAPI.AccountAddPaymentMethod(ctx, account).XKillbillCreatedBy(by).
		PaymentMethodRequest(*external).IsDefault(true).Execute()
	check("a payment method is created", err == nil && response.StatusCode == 201, err)
	hundred := amount(100)
	hundred.SetTransactionType("AUTHORIZE")
	hundred.SetPaymentExternalKey(name)
	response, err = api.AccountAPI.AccountStartPayment(ctx, account).XKillbillCreatedBy(by).
		TransactionRequest(hundred).IdempotencyKey(name).Execute()
	check("a payment is authorized", err == nil && response.StatusCode == 201, err)
	payment := created(response)
	response, err = api.PaymentAPI.PaymentCapture(ctx, payment).XKillbillCreatedBy(by).TransactionRequest(amount(60)).Execute()
	check("it is captured", err == nil && response.StatusCode == 201, err)
	response, err = api.PaymentAPI.PaymentRefund(ctx, payment).XKillbillCreatedBy(by).TransactionRequest(amount(15)).Execute()
	check("it is refunded", err == nil && response.StatusCode == 201, err)
	_, err = api.PaymentAPI.PaymentRefund(ctx, payment).XKillbillCreatedBy(by).TransactionRequest(amount(50)).Execute()
	check("no more than is left", err != nil && strings.Contains(body(err), "7031"), body(err))
	read := must(api.PaymentAPI.PaymentGet(ctx, payment).Execute())
	amounts := []float64{read.GetAuthAmount(), read.GetCapturedAmount(), read.GetRefundedAmount()}
	check("its amounts are numbers", slices.Equal(amounts, []float64{100, 60, 15}), amounts)
	entries := must(api.LedgerAPI.LedgerEntries(ctx).Payment(payment).Execute())
	check("the ledger has both postings", len(entries.GetEntries()) == 2, entries)
}

func parts(of ...faregate.RolloutVariation) faregate.Fallthrough {
	rollout := faregate.NewFallthrough()
	rollout.SetVariations(of)
	return *rollout
}

func part(id string, from, to float64) faregate.RolloutVariation {
	return *faregate.NewRolloutVariation(id, []float64{from, to})
}

func flag(key, disabled string) faregate.FlagRequest {
	variations := []faregate.Variation{*faregate.NewVariation("on", "true"), *faregate.NewVariation("off", "false")}
	return *faregate.NewFlagRequest(disabled, parts(part("on", 0, 1)), key, "boolean", variations)
}

func firstFlag(ctx context.Context, api *faregate.APIClient) {
	const key, environment = "new-checkout", "dev"
	flags := api.FeatureFlagsAPI
	made, response, err := flags.CreateFlag(ctx).Environment(environment).FlagRequest(flag(key, "off")).Execute()
	check("a flag is created, off", err == nil && !made.GetIsEnabled(), err, made)
	patch := faregate.NewFlagPatch()
	patch.SetIsEnabled(true)
	patch.SetFallthrough(parts(part("on", 0, 0.1), part("off", 0.1, 1)))
	rolledOut := must(flags.PatchFlag(ctx, key).Environment(environment).IfMatch(response.Header.Get("ETag")).
		FlagPatch(*patch).Execute())
	shown := rolledOut.GetFallthrough()
	isWhole := len(rolledOut.GetVariations()) == 2 && len(shown.GetVariations()) == 2
	check("it is rolled out", rolledOut.GetIsEnabled() && isWhole, rolledOut)
	explained := must(flags.ExplainFlag(ctx, key).Environment(environment).User(*faregate.NewUser("ann")).Execute())
	check("it is explained", explained.GetKey() == key, explained)
	_, _, err = flags.CreateFlag(ctx).Environment(environment).FlagRequest(flag("other", "none")).Execute()
	check("a wrong field is named", err != nil && strings.Contains(body(err), `"disabledVariationId"`), body(err))
	sdkSecret := ""
	for _, it := range must(flags.Environments(ctx).Execute()) {
		if secrets := it.GetSecrets(); it.GetKey() == environment {
			sdkSecret = secrets[0].GetValue()
		}
	}
	sdk := client(map[string]string{"X-API-Key": sdkSecret})
	user := faregate.NewOfrepContext("ann")
	user.AdditionalProperties = map[string]any{"plan": "gold"}
	value := must(sdk.OFREPAPI.PostOfrepV1EvaluateFlagsKey(context.Background(), key).
		OfrepRequest(*faregate.NewOfrepRequest(*user)).Execute())
	_, isBoolean := value.GetValue().(bool)
	check("OpenFeature's protocol has its value", isBoolean, value)
	segment(ctx, flags, environment)
}

// A field that is not set is not sent as an empty list.
func segment(ctx context.Context, flags *faregate.FeatureFlagsAPIService, environment string) {
	staff := faregate.NewSegmentRequest()
	staff.SetName("staff")
	staff.SetIncluded([]string{"ann"})
	staff.SetExcluded([]string{"bob"})
	made := must(flags.CreateSegment(ctx).Environment(environment).SegmentRequest(*staff).Execute())
	patch := faregate.NewSegmentPatch()
	patch.SetName("crew")
	renamed := must(flags.PatchSegment(ctx, made.GetId()).Environment(environment).SegmentPatch(*patch).Execute())
	holds := renamed.GetName() == "crew" && slices.Equal(renamed.GetIncluded(), []string{"ann"})
	check("a segment's lists stay", holds && slices.Equal(renamed.GetExcluded(), []string{"bob"}), renamed)
}

func firstSignUp(ctx context.Context) {
	api := client(ofTenant()).SignUpAPI
	email, password := name+"@example.com", "Correct-Horse-7"
	ada := faregate.NewNewRegistration(true, email, "Ada", "Lovelace", password)
	registered := must(api.SignUpRegister(ctx).NewRegistration(*ada).Execute())
	check("a customer registers", registered.GetStatus() == "verification-sent", registered)
	token := mailedToken(email)
	page, err := http.Get(url + "/verify-email?token=" + token)
	check("the link in the mail has a page", err == nil && page.StatusCode == 200 && hasButton(page), err)
	response, err := api.SignUpVerify(ctx).Token(*faregate.NewToken(token)).Execute()
	check("the address is verified", err == nil && response.StatusCode == 204, err)
	session, response, err := api.SignUpLogIn(ctx).Credentials(*faregate.NewCredentials(email, password)).Execute()
	check("the customer logs in", err == nil && response.StatusCode == 201, err)
	headers := ofTenant()
	headers["Authorization"] = "Bearer " + session.GetAccessToken()
	me := must(client(headers).SignUpAPI.SignUpMe(ctx).Execute())
	check("and sees themselves", me.GetEmail() == email, me)
}

func hasButton(page *http.Response) bool {
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	return err == nil && strings.Contains(string(text), "<button>")
}

// mailedToken is the token of the mail to an address; mails are sent within moments.
func mailedToken(email string) string {
	link := regexp.MustCompile(`verify-email\?token=([\w.~-]+)`)
	for range 100 {
		files, _ := filepath.Glob(filepath.Join(mails, "*.eml"))
		for _, file := range files {
			bytes, _ := os.ReadFile(file)
			text := strings.NewReplacer("=\r\n", "", "=3D", "=").Replace(string(bytes))
			if token := link.FindStringSubmatch(text); token != nil && strings.Contains(text, email) {
				return token[1]
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	panic("no mail came")
}

func main() {
	url, mails = os.Args[1], os.Args[2]
	ctx := context.Background()
	tenant(ctx)
	api := client(ofTenant())
	firstPayment(operator(ctx), api)
	firstFlag(operator(ctx), api)
	firstSignUp(ctx)
	fmt.Println(passed, "passed,", failed, "failed")
}
