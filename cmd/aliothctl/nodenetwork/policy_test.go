// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

func TestPolicyHandle_OnceFlagMissing_Refused(t *testing.T) {
	cmd := policyCommand()
	cmd.SetArgs([]string{"handle"})
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, errNotOnce) || IsFinding(err) {
		t.Errorf("error %v, a finding: %v", err, IsFinding(err))
	}
}

func TestPolicyStatus_Conditions_TrueOnePrinted(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Because" + kind, Message: "of " + kind}
	}
	var text strings.Builder
	err := printPolicies(&text, []policyLine{
		lineOf(nmstatev1.NodeNetConfPolicyKind, "new", nil),
		lineOf(nmstatev1.NodeNetworkConfigurationPolicyKind, "blue", []metav1.Condition{
			condition(nmstatev1.AvailableCondition, metav1.ConditionFalse),
			condition(nmstatev1.DegradedCondition, metav1.ConditionTrue),
			condition(nmstatev1.ConflictCondition, metav1.ConditionTrue),
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(text.String()) {
		words = append(words, strings.Join(strings.Fields(line), " "))
	}
	want := "NodeNetConfPolicy/new\n" +
		"NodeNetworkConfigurationPolicy/blue Degraded BecauseDegraded of Degraded\n" +
		"Conflict Overruled of Conflict"
	if got := strings.Join(words, "\n"); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	text.Reset()
	if err := printPolicies(&text, nil); err != nil || text.String() != "There is no policy.\n" {
		t.Errorf("printed %q (%v)", text.String(), err)
	}
}

// answersOf serves bodies by path, and writes a kubeconfig for them.
func answersOf(t *testing.T, bodies map[string]string) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, ok := bodies[r.URL.Path]
		if !ok || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"test",
		"clusters":[{"name":"test","cluster":{"server":%q}}],"contexts":[{"name":"test","context":{"cluster":"test"}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// nodeNetworkBodies returns the answers of a cluster with the node n1 and without a policy.
func nodeNetworkBodies() map[string]string {
	bodies := map[string]string{
		"/api/v1/nodes":    `{"items":[{"metadata":{"name":"n1"}}]}`,
		"/api/v1/nodes/n1": `{"metadata":{"name":"n1"}}`,
	}
	for _, kind := range []string{
		"v1/nodenetconfpolicies", "v1/nodenetworkconfigurationpolicies",
		"v1beta1/nodenetworkstates", "v1beta1/nodenetworkconfigurationenactments",
	} {
		bodies["/apis/nmstate.io/"+kind] = `{"items":[]}`
	}
	return bodies
}

func handlePolicies(t *testing.T, bodies map[string]string, words ...string) (string, error) {
	t.Helper()
	cmd := policyCommand()
	cmd.SetArgs(append([]string{"handle", "--once", "--kubeconfig", answersOf(t, bodies)}, words...))
	var text strings.Builder
	cmd.SetOut(&text)
	cmd.SetErr(t.Output())
	err := cmd.ExecuteContext(t.Context())
	return text.String(), err
}

func TestPolicyHandle_Kubeconfig_PoliciesHandled(t *testing.T) {
	if text, err := handlePolicies(t, nodeNetworkBodies()); err != nil || text != "There is no policy.\n" {
		t.Errorf("printed %q (%v)", text, err)
	}
	if _, err := handlePolicies(t, nodeNetworkBodies(), "--node", "n1", "--node", "n2"); err == nil || !strings.Contains(err.Error(), "no node n2") {
		t.Errorf("a node that does not exist: %v", err)
	}
	without := nodeNetworkBodies()
	delete(without, "/apis/nmstate.io/v1beta1/nodenetworkstates")
	if _, err := handlePolicies(t, without); err == nil || !strings.Contains(err.Error(), "CRD of NodeNetworkState") || IsFinding(err) {
		t.Errorf("a cluster without a kind: %v", err)
	}
}

func TestPolicyHandle_Degraded_Told(t *testing.T) {
	bodies := nodeNetworkBodies()
	bodies["/apis/nmstate.io/v1/nodenetconfpolicies"] = `{"items":[{"metadata":{"name":"blue"},"spec":{"priority":0},
		"status":{"conditions":[{"type":"Degraded","status":"True","reason":"FailedToConfigure","message":"n1: no"}]}}]}`
	api, err := policyClient(answersOf(t, bodies))
	if err != nil {
		t.Fatal(err)
	}
	cmd := policyHandleCommand()
	var text strings.Builder
	cmd.SetOut(&text)
	cmd.SetContext(t.Context())
	if err := reportPolicies(cmd, api); !IsFinding(err) || !strings.Contains(text.String(), "NodeNetConfPolicy/blue  Degraded  FailedToConfigure  n1: no") {
		t.Errorf("printed %q (%v)", text.String(), err)
	}
}
