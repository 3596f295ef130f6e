// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/waits"
)

// levelNames are the names that the chart gives to levels, and to a FlowSchema of each.
var levelNames = []string{"alioth-claims", "alioth-daemons", "alioth-lookups"}

// flowNames are the names of all its FlowSchemas. The last one has a level of the API server's.
var flowNames = append(slices.Clone(levelNames), "alioth-leader-election")

// request is a request of a ServiceAccount.
type request struct{ account, verb, path string }

// classes returns the FlowSchema and level of a request, by their names.
func classes(ctx context.Context, t *testing.T, server *apiserver.Server, token string, r request) (schema, level string) {
	t.Helper()
	config := server.Config()
	config.BearerToken = token
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := http.NewRequestWithContext(ctx, r.verb, config.Host+r.path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.Do(asked)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	admin := kubernetes.NewForConfigOrDie(server.Config()).FlowcontrolV1()
	schemas, errSchemas := admin.FlowSchemas().List(ctx, metav1.ListOptions{})
	levels, errLevels := admin.PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
	if errSchemas != nil || errLevels != nil {
		t.Fatal(errSchemas, errLevels)
	}
	for i := range schemas.Items {
		if string(schemas.Items[i].UID) == response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) {
			schema = schemas.Items[i].Name
		}
	}
	for i := range levels.Items {
		if string(levels.Items[i].UID) == response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) {
			level = levels.Items[i].Name
		}
	}
	return schema, level
}

// tokenOf returns a token of a ServiceAccount of the chart's namespace.
func tokenOf(t *testing.T, server *apiserver.Server, account string) string {
	t.Helper()
	accounts := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ServiceAccounts(chart.Namespace)
	answer, err := accounts.CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

func TestFlowControl_EachRequest_LevelAssigned(t *testing.T) {
	server := bareServer(t)
	helm := chart.New(t, root, server.Config())
	upgrade(t, helm, "an installation")
	admin := kubernetes.NewForConfigOrDie(server.Config())
	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if _, err := admin.CoreV1().ServiceAccounts(chart.Namespace).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for _, account := range []string{"alioth-operator", "alioth-cnid", "other"} {
		tokens[account] = tokenOf(t, server, account)
	}
	const addresses = "/apis/alioth.dev/v1alpha1/addresses"
	const leases = "/apis/coordination.k8s.io/v1/namespaces/"
	elsewhere := [2]string{"service-accounts", "workload-low"}
	both := func(name string) [2]string { return [2]string{name, name} }
	want := map[request][2]string{
		{"alioth-cnid", http.MethodGet, addresses + "/blue.10.0.0.1"}:                             both("alioth-lookups"),
		{"alioth-cnid", http.MethodGet, addresses + "?fieldSelector=spec.node%3Dn"}:               both("alioth-daemons"),
		{"alioth-cnid", http.MethodGet, addresses + "?watch=true&timeoutSeconds=1"}:               both("alioth-daemons"),
		{"alioth-cnid", http.MethodDelete, addresses + "/blue.10.0.0.1"}:                          both("alioth-daemons"),
		{"alioth-cnid", http.MethodGet, "/apis/alioth.dev/v1alpha1/vpcs/blue"}:                    both("alioth-daemons"),
		{"alioth-cnid", http.MethodGet, "/api/v1/namespaces/default/pods/p"}:                      both("alioth-daemons"),
		{"alioth-cnid", http.MethodGet, "/version"}:                                               both("alioth-daemons"),
		{"alioth-operator", http.MethodGet, addresses + "/blue.10.0.0.1"}:                         both("alioth-claims"),
		{"alioth-operator", http.MethodPost, addresses}:                                           both("alioth-claims"),
		{"alioth-operator", http.MethodGet, leases + chart.Namespace + "/leases/alioth-operator"}: {"alioth-leader-election", "leader-election"},
		{"alioth-operator", http.MethodPut, leases + chart.Namespace + "/leases/alioth-operator"}: {"alioth-leader-election", "leader-election"},
		{"alioth-operator", http.MethodPost, leases + chart.Namespace + "/leases"}:                {"alioth-leader-election", "leader-election"},
		{"alioth-operator", http.MethodGet, leases + "a/leases/alioth"}:                           both("alioth-claims"),
		{"other", http.MethodGet, leases + chart.Namespace + "/leases/alioth-operator"}:           elsewhere,
		{"alioth-operator", http.MethodGet, "/apis"}:                                              both("alioth-claims"),
		{"other", http.MethodGet, addresses + "/blue.10.0.0.1"}:                                   elsewhere,
	}
	expect := func(when string, want map[request][2]string) {
		t.Helper()
		var got map[request][2]string
		// The API server uses FlowSchemas some time after they were made.
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, waits.Limit(time.Minute), true, func(ctx context.Context) (bool, error) {
			got = map[request][2]string{}
			for r := range want {
				schema, level := classes(ctx, t, server, tokens[r.account], r)
				got[r] = [2]string{schema, level}
			}
			return cmp.Equal(want, got), nil
		})
		if err != nil {
			t.Errorf("%s: FlowSchemas and levels (-want +got):\n%s", when, cmp.Diff(text(want), text(got)))
		}
	}
	expect("installed", want)
	for _, name := range flowNames {
		schema, err := admin.FlowcontrolV1().FlowSchemas().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range schema.Status.Conditions {
			if condition.Type == flowcontrolv1.FlowSchemaConditionDangling && condition.Status != flowcontrolv1.ConditionFalse {
				t.Errorf("%s: %s", name, condition.Message)
			}
		}
	}
	upgrade(t, helm, "an upgrade that turns them off", "--set", "flowControl.enabled=false")
	for r := range want {
		if r.path != "/version" && r.path != "/apis" { // which have a class of their own there
			want[r] = elsewhere
		} else {
			delete(want, r)
		}
	}
	expect("turned off", want)
}

// text is the same in a form that is compared line by line.
func text(all map[request][2]string) map[string]string {
	list := map[string]string{}
	for r, names := range all {
		list[fmt.Sprint(r)] = fmt.Sprint(names)
	}
	return list
}

// A lookup that waits would delay claims, which pods wait for.
func TestFlowControl_OverLimit_OnlyLookupsRejected(t *testing.T) {
	levels := rendered(t, "PriorityLevelConfiguration")
	if len(levels) != len(levelNames) || len(rendered(t, "FlowSchema")) != len(flowNames) {
		t.Fatalf("the chart renders the levels %v", levels)
	}
	for _, name := range levelNames {
		limited, _ := levels[name].Object["spec"].(map[string]any)["limited"].(map[string]any)
		response, _ := limited["limitResponse"].(map[string]any)
		want, lent := "Queue", "<nil>"
		if name == "alioth-lookups" {
			want, lent = "Reject", "100"
		}
		if response["type"] != want || fmt.Sprint(limited["lendablePercent"]) != lent {
			t.Errorf("%s: %v", name, limited)
		}
	}
	for _, kind := range []string{"PriorityLevelConfiguration", "FlowSchema"} {
		if left := rendered(t, kind, "--set", "flowControl.enabled=false"); len(left) != 0 {
			t.Errorf("flowControl.enabled=false leaves %v", left)
		}
	}
}
