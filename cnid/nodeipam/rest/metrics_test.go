// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
)

// measured returns a server with metrics.
func measured(service rest.Service) (*rest.Server, *prometheus.Registry) {
	registry := prometheus.NewPedanticRegistry()
	return rest.New(rest.Config{Service: service, Node: nodeOf, Metrics: rest.NewMetrics(registry), Log: slog.New(slog.DiscardHandler)}), registry
}

// families gathers the metrics of a registry, by name.
func families(t *testing.T, registry *prometheus.Registry) map[string][]*dto.Metric {
	t.Helper()
	list, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*dto.Metric{}
	for _, one := range list {
		all[one.GetName()] = one.GetMetric()
	}
	return all
}

func labelsOf(metric *dto.Metric) string {
	var labels []string
	for _, label := range metric.GetLabel() {
		labels = append(labels, label.GetName()+"="+label.GetValue())
	}
	return strings.Join(labels, " ")
}

// TestRESTMetrics_Requests_CountedByPathAndCode: paths have no version and no container ID, and all
// unserved paths count as one path.
func TestRESTMetrics_Requests_CountedByPathAndCode(t *testing.T) {
	server, registry := measured(&resttest.Service{})
	socket, tcp := server.Handler(rest.Place{Socket: true, Patience: time.Minute}), server.Handler(rest.Place{Token: "proof", Patience: time.Minute})
	do(socket, "POST", requests, plural)
	do(tcp, "POST", "/v0.2"+requests, plural)
	do(socket, "POST", requests, "{")
	do(socket, "GET", requests, "")
	do(socket, "GET", "/network/endpoints/"+container, "")
	do(socket, "GET", "/v0.1/network/endpoints/nothing", "")
	do(socket, "GET", "/debug/restdata", "")
	do(tcp, "GET", "/debug/restdata", "") // at the socket alone
	do(tcp, "POST", "/homeaz", "")
	for i := range 100 {
		do(tcp, "GET", fmt.Sprintf("/path%d", i), "")
	}
	var counted, timed []string
	all := families(t, registry)
	for _, metric := range all["alioth_cnid_node_ipam_requests_total"] {
		counted = append(counted, fmt.Sprint(labelsOf(metric), " ", metric.GetCounter().GetValue()))
	}
	for _, metric := range all["alioth_cnid_node_ipam_request_seconds"] {
		timed = append(timed, fmt.Sprint(labelsOf(metric), " ", metric.GetHistogram().GetSampleCount()))
	}
	slices.Sort(counted)
	slices.Sort(timed)
	want := []string{
		"code=0 path=/debug/restdata 1", "code=0 path=/network/endpoints/{containerID} 1", "code=0 path=/network/requestipconfigs 2",
		"code=14 path=/network/endpoints/{containerID} 1", "code=21 path=/network/requestipconfigs 1", "code=23 path=/network/requestipconfigs 1",
		"code=43 path=other 102",
	}
	if diff := cmp.Diff(want, counted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = []string{"path=/debug/restdata 1", "path=/network/endpoints/{containerID} 2", "path=/network/requestipconfigs 4", "path=other 102"}
	if diff := cmp.Diff(want, timed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRESTMetrics_RunningRequests_Counted(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	server, registry := measured(&resttest.Service{Before: func(context.Context, string) error {
		begun <- struct{}{}
		<-end
		return nil
	}})
	handler := server.Handler(rest.Place{Socket: true, Patience: time.Minute})
	running := func() float64 {
		return families(t, registry)["alioth_cnid_node_ipam_requests_running"][0].GetGauge().GetValue()
	}
	answered := make(chan struct{})
	go func() { do(handler, "POST", requests, plural); close(answered) }()
	<-begun
	if got := running(); got != 1 {
		t.Errorf("%v run, want 1", got)
	}
	close(end)
	<-answered
	if got := running(); got != 0 {
		t.Errorf("%v run, want none", got)
	}
}

func TestMetrics_EachName_ConventionalAndDocumented(t *testing.T) {
	server, registry := measured(&resttest.Service{})
	do(server.Handler(rest.Place{Socket: true, Patience: time.Minute}), "POST", requests, plural)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	docs, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := families(t, registry)
	if len(all) != 3 {
		t.Errorf("got %v", all)
	}
	for name := range all {
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md says nothing of %s", name)
		}
	}
}
