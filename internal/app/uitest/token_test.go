package uitest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

const token = "a-token-of-the-farm"

// guarded is a second instance of the service, with a token.
func (s *stand) guarded(t *testing.T) *testkit.ServiceProcess {
	t.Helper()
	return s.Service(t, map[string]string{"API_TOKEN": token})
}

// Where a token is set the page and all that it reads need it, and the browser asks for it.
func (s *stand) withToken(t *testing.T) {
	service := s.guarded(t)
	for _, path := range []string{"/ui/", "/ui/ui.js", "/workspaces", "/nodes", "/findings", "/operations", "/pods/kim/status", "/apidocs/"} {
		answer := world.Call(t, service.URL, "GET", path, "", http.StatusUnauthorized)
		if asks := answer.Header.Get("WWW-Authenticate"); !strings.HasPrefix(asks, "Basic ") {
			t.Errorf("%s asks for %q", path, asks)
		}
	}
	// Nobody is there whom the browser could ask.
	if err := chromedp.Do(tab(t, s.browser, service.URL, desktop).ctx, chromedp.Navigate(service.URL+"/ui/")); err == nil || !strings.Contains(err.Error(), "ERR_INVALID_AUTH_CREDENTIALS") {
		t.Errorf("without the token: %v", err)
	}

	asked := desktop
	asked.password = token
	p := open(t, s.browser, service.URL+"/ui/", asked)
	p.wait("the workspace", row("workspaces", "kim"))
	p.waitText("#live", "Live")
	p.waitText("#findings", "row-without-pod")
	p.do("go to the status", chromedp.Click("#workspaces tbody a"))
	p.wait("the status", "document.body.innerText.includes('\"stage\":\"ready\"')")
	p.wantQuiet()

	// A password in the address works as well.
	p = open(t, s.browser, strings.Replace(service.URL, "http://", "http://operator:"+token+"@", 1)+"/ui/", desktop)
	p.wait("the workspace", row("workspaces", "kim"))
	p.wantQuiet()

	wrong := desktop
	wrong.password = "another"
	if shown := open(t, s.browser, service.URL+"/ui/", wrong).shows("body"); !strings.Contains(shown, "X-Internal-Token is missing or wrong") {
		t.Errorf("with a wrong token: %s", shown)
	}
}

// swagger is one call in Swagger UI.
type swagger struct{ block string }

func swaggerCall(tag, id string) swagger { return swagger{"#operations-" + tag + "-" + id} }

// tryOut opens a call, fills its body in if there is one, and executes it.
func (p *page) tryOut(call swagger, body string) {
	p.t.Helper()
	p.wait("the call "+call.block, "document.querySelector("+quote(call.block)+")")
	if !eval[bool](p, "document.querySelector("+quote(call.block)+").classList.contains('is-open')") {
		p.do("open it", chromedp.Click(call.block+" .opblock-summary-control"))
		p.do("Try it out", chromedp.Click(call.block+" .try-out__btn"))
	}
	if body != "" {
		p.fill(call.block+" textarea.body-param__text", body)
	}
	p.do("Execute", chromedp.Click(call.block+" button.execute"))
}

// answered waits for an answer with a status and a text.
func (p *page) answered(call swagger, status, text string) {
	p.t.Helper()
	table := call.block + " .live-responses-table .response"
	p.waitText(table+" .response-col_status", status)
	p.waitText(table+" .response-col_description", text)
	p.do("bring the answer into view", chromedp.ScrollIntoView(call.block+" .live-responses-table"))
}

func (s *stand) triesOutInSwagger(t *testing.T) {
	p := open(t, s.browser, s.service.URL+"/apidocs/", desktop)
	list, put := swaggerCall("accounts", "listUsers"), swaggerCall("accounts", "createUser")
	p.tryOut(list, "")
	p.answered(list, "200", `"name": "kim"`)
	p.keep("swagger", chromedp.CaptureScreenshot())
	p.tryOut(put, world.UserBody("swagger"))
	p.answered(put, "201", `"status": "created"`)
	p.tryOut(put, world.UserBody("swagger"))
	p.answered(put, "409", "user already exists")
	p.wantOwn()
	world.Call(t, s.service.URL, "GET", "/accounts/users/swagger", "", 200)
}

// With a token the page and its reading calls have it from the browser; a call that changes something
// needs it from Swagger UI's own form.
func (s *stand) triesOutInSwaggerWithToken(t *testing.T) {
	v := desktop
	v.password = token
	service := s.guarded(t)
	p := open(t, s.browser, service.URL+"/apidocs/", v)
	list, put := swaggerCall("accounts", "listUsers"), swaggerCall("accounts", "createUser")
	p.tryOut(list, "")
	p.answered(list, "200", `"name": "kim"`)
	p.tryOut(put, world.UserBody("refused"))
	p.answered(put, "401", "X-Internal-Token")
	p.do("open Authorize", chromedp.Click(".auth-wrapper .authorize"))
	p.wait("the form", "document.querySelector('.auth-container input[aria-label=\"auth-api-key-value\"], .auth-container input[type=text]')")
	p.do("give the token", chromedp.SendKeys(".auth-container input", token), chromedp.Click(".auth-container .modal-btn.authorize"))
	p.do("close", chromedp.Click(".auth-container .btn-done"))
	p.tryOut(put, world.UserBody("admitted"))
	p.answered(put, "201", `"status": "created"`)
	p.keep("swagger-token", chromedp.CaptureScreenshot())
	p.wantOwn()
}
