// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/api/chart"
)

type families map[string]*dto.MetricFamily

// scrape reads a real endpoint, and returns its text.
func scrape(t *testing.T, addr string) (all families, text string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, "", err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err = parser.TextToMetricFamilies(strings.NewReader(string(body)))
	return all, string(body), err
}

// sum adds up the counts of a family under labels, given as name, value, ...
func (f families) sum(name string, labels ...string) float64 {
	var total float64
	for _, metric := range f[name].GetMetric() {
		has := map[string]string{}
		for _, label := range metric.GetLabel() {
			has[label.GetName()] = label.GetValue()
		}
		matches := true
		for i := 0; i < len(labels); i += 2 {
			matches = matches && has[labels[i]] == labels[i+1]
		}
		if matches {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func TestMetrics_OperatorAtWork_Counted(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.MetricsAddr = freeAddr(t)
	r.operate(cfg)
	r.network("metrics")
	served := r.schedule(newPod("metrics", "served", "n", ""), "node-1")
	refused := r.schedule(newPod("metrics", "refused", "n", `{name: eth0}`), "node-1")
	r.create(newSubnet("metrics-overlap", "metrics", "", "10.10.1.0/25"), heldBy("metrics", "metrics-net1", "10.10.1.99"))
	leak := heldBy("metrics", "metrics-net1", "10.10.1.98")
	leak.Spec.Node = "no-such-node"
	r.create(leak)
	sees(r, served, hasReason(v1alpha1.AttachedReason))
	sees(r, refused, hasReason(v1alpha1.NICInvalidReason))
	r.gone(leak)

	atLeast := []struct {
		what   string
		count  float64
		name   string
		labels []string
	}{
		{"a leader", 1, "alioth_operator_leader", nil},
		{"a term", 1, "alioth_operator_terms_total", nil},
		{"a claim per family", 2, "alioth_operator_writes_total", []string{"controller", "pod", "kind", "Address", "verb", "create", "result", "ok"}},
		{"a VNI claim", 1, "alioth_operator_writes_total", []string{"controller", "vpc", "kind", "VNIClaim", "verb", "create", "result", "ok"}},
		{"what pods are told", 2, "alioth_operator_writes_total", []string{"controller", "pod", "kind", "Pod/status", "verb", "patch", "result", "ok"}},
		{"a leak released", 1, "alioth_operator_writes_total", []string{"controller", "address", "kind", "Address", "verb", "delete", "result", "ok"}},
		{"times of writes", 2, "alioth_operator_write_duration_seconds", []string{"kind", "Address", "verb", "create"}},
		{"an assignment", 1, "alioth_operator_pod_assignments_total", nil},
		{"a refusal", 1, "alioth_operator_pod_refusals_total", []string{"reason", v1alpha1.NICInvalidReason}},
		{"a pod refused now", 1, "alioth_operator_refused_objects", []string{"kind", "Pod", "reason", v1alpha1.NICInvalidReason}},
		{"a subnet refused now", 1, "alioth_operator_refused_objects", []string{"kind", "Subnet", "reason", v1alpha1.OverlapReason}},
		{"addresses held", 2, "alioth_operator_addresses", []string{"state", "held"}},
		{"a leak to be released", 1, "alioth_operator_addresses", []string{"state", "orphaned"}},
		{"the latency of the pods' queue", 2, "workqueue_queue_duration_seconds", []string{"controller", "pod"}},
	}
	r.eventually(func() error {
		all, _, err := scrape(t, cfg.MetricsAddr)
		if err != nil {
			return err
		}
		for _, want := range atLeast {
			if got := all.sum(want.name, want.labels...); got < want.count {
				return fmt.Errorf("%s: %g, want %g", want.what, got, want.count)
			}
		}
		if len(all["workqueue_depth"].GetMetric()) == 0 {
			return errors.New("no depth of any queue")
		}
		for _, name := range chart.DashboardMetrics(t, "..", "alioth_operator_", "workqueue_") {
			if all[name] == nil {
				return fmt.Errorf("the dashboard asks for %s, which the operator does not have", name)
			}
		}
		return nil
	})
}

func TestMetrics_EachOne_ValidAndDocumented(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.MetricsAddr = freeAddr(t)
	r.operate(cfg)
	r.network("metric-names")
	refused := r.schedule(newPod("metric-names", "refused", "n", `{name: eth0}`), "node-1")
	sees(r, refused, hasReason(v1alpha1.NICInvalidReason))
	// A write is counted once it is answered, when the pod has its status already.
	var text string
	var own []string
	r.eventually(func() error {
		all, scraped, err := scrape(t, cfg.MetricsAddr)
		if err != nil {
			return err
		}
		text = scraped
		own = slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return !strings.HasPrefix(name, "alioth_") })
		if len(own) < 8 {
			return fmt.Errorf("%d metrics of Alioth's own were found", len(own))
		}
		return nil
	})
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "alioth_") {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
	docs, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md says nothing of %s", name)
		}
	}
}

func TestWriteMetrics_EachResult_Distinguished(t *testing.T) {
	resource := schema.GroupResource{Resource: "addresses"}
	for want, err := range map[string]error{
		"ok":       nil,
		"exists":   fmt.Errorf("claim: %w", apierrors.NewAlreadyExists(resource, "a")),
		"conflict": apierrors.NewConflict(resource, "a", errors.New("changed")),
		"gone":     apierrors.NewNotFound(resource, "a"),
		"refused":  apierrors.NewForbidden(resource, "a", errors.New("policy")),
		"late":     fmt.Errorf("post: %w", errNotLeading),
		"error":    apierrors.NewTimeoutError("unknown outcome", 1),
	} {
		if got := resultOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

func TestAddressesByState_HolderGone_Orphaned(t *testing.T) {
	living := operatortest.Pod("blue", "a", "p", "", "")
	gone := operatortest.Pod("blue", "a", "q", "", "")
	node := &store.Node{Meta: operatortest.Meta("n1", 0), Name: "node-1"}
	ofNode := func(ip, uid string) *store.Address {
		row := operatortest.Address("v", "s", ip, living)
		row.Holder = store.Holder{Kind: store.HolderNode, Name: "node-1", UID: uid}
		return row
	}
	assumed := operatortest.Address("v", "s", "10.0.0.9", living)
	assumed.UID = ""
	rows := operatortest.New(t, living, node,
		operatortest.Address("v", "s", "10.0.0.4", living), operatortest.Address("v", "s", "10.0.0.5", gone),
		ofNode("10.0.0.6", "n1"), ofNode("10.0.0.7", "an-earlier-one"), assumed)
	rows.View(func(tx store.ReadTx) {
		want := map[string]int{"held": 2, "orphaned": 2, "claiming": 1}
		if diff := cmp.Diff(want, addressesByState(tx)); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})
}
