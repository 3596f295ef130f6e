// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/alioth-net/alioth/cmd/process/guard"
	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/waits"
)

func TestDaemonMetrics_EachMetric_DocumentedAndInDashboard(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	if conn, _, err := dialFrom(t, l.pods["b1"].NetNS, netip.MustParseAddr("10.10.1.99")); err == nil {
		conn.Close()
		t.Error("nobody answered")
	}
	text := l.nodes[0].get(t, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range chart.DashboardMetrics(t, "..", "alioth_cnid_", "alioth_datapath_", "alioth_filter_") {
		if families[name] == nil {
			t.Errorf("the dashboard asks for %s, which the daemon does not have", name)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	docs, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range families {
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md says nothing of %s", name)
		}
	}
	labels := map[string]bool{}
	for _, metric := range families["alioth_datapath_vpc_dropped_packets_total"].GetMetric() {
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = true
		}
	}
	if len(labels) != 3 || !labels["reason"] || !labels["direction"] || !labels["vpc"] {
		t.Errorf("drops have the labels %v, which has to stay a bounded number of series", labels)
	}
}

// Every pod on the network of a node reaches its loopback, and metrics name VPCs.
func TestDaemonMetrics_Loopback_OnlyAuthorizedServed(t *testing.T) {
	config := apiserver.Start(t)
	api := kubernetes.NewForConfigOrDie(config)
	token := func(name string) string {
		t.Helper()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := api.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		made, err := api.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made.Status.Token
	}
	may, mayNot := token("prometheus"), token("nobody")
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "alioth-metrics"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scrapes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	}
	if _, err := api.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n := &node{registry: prometheus.NewRegistry(), log: slog.New(slog.DiscardHandler)}
	reconcile.NewMetrics(n.registry)
	addr := freeAddr(t)
	n.cfg.MetricsAddr, n.cfg.Guard = addr, guard.Reviews{}
	go func() {
		if err := (&daemon{node: n, control: control{api: config}}).serveHTTP(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		who, token string
		want       int
	}{{"nobody", "", http.StatusUnauthorized}, {"without the right", mayNot, http.StatusForbidden}, {"with the right", may, http.StatusOK}} {
		status, body := scrape(t, addr, c.token, c.want)
		if status != c.want || (c.want == http.StatusOK) != strings.Contains(body, "alioth_cnid_sync_failures_total") {
			t.Errorf("%s: %d, want %d\n%.300s", c.who, status, c.want, body)
		}
	}
	if err := (&daemon{node: n}).serveMetrics(t.Context(), addr); err == nil {
		t.Error("without an API server, metrics are served to everybody")
	}
	n.cfg.Guard = nil
	if err := (&daemon{node: n, control: control{api: config}}).serveMetrics(t.Context(), addr); err == nil {
		t.Error("without a guard, metrics are served to everybody")
	}
}

// scrape asks until the server is there and, because the API server learns of
// rights a moment later, until it answers as wanted.
func scrape(t *testing.T, addr, token string, want int) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	await(t, fmt.Sprintf("status %d", want), func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(request)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		status, body = answer.StatusCode, string(text)
		return err == nil && status == want
	})
	return status, body
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	waits.True(t, time.Minute, what, holds)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
