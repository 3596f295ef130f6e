// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// verdictOf has backends with the lowest addresses of a range, except the backends that are gone.
func verdictOf(n int, gone func(i int) bool) *services.Verdict {
	v := &services.Verdict{ID: scaled.ID{Namespace: "shop", Service: "web", ServiceUID: "u", VPC: "blue", VPCUID: "b"}}
	ip := netip.MustParseAddr("fd10::")
	for i := range n {
		if ip = ip.Next(); !gone(i) {
			v.Backends = append(v.Backends, scaled.Backend{
				IP: ip, Node: fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250), PodUID: "0dc1b2f0-1ad2-4f6c-9c5c-0123456789ab",
				ForZones: []string{"eu-central-1a"}, Targets: []scaled.Target{{Protocol: "TCP", Port: 80, Target: 8080}},
			})
		}
	}
	return v
}

func none(int) bool { return false }

func backendsOf(rows []*scaled.Endpoint) (list []scaled.Backend) {
	for _, row := range rows {
		list = append(list, row.Backends...)
	}
	slices.SortFunc(list, services.Compare)
	return list
}

// changed returns the parts that differ, are new or are gone.
func changed(before, after []*scaled.Endpoint) (names []string) {
	for _, both := range [][2][]*scaled.Endpoint{{before, after}, {after, before}} {
		for _, row := range both[0] {
			at := slices.IndexFunc(both[1], func(other *scaled.Endpoint) bool { return other.Name == row.Name })
			if (at < 0 || !same(row, both[1][at])) && !slices.Contains(names, row.Name) {
				names = append(names, row.Name)
			}
		}
	}
	return names
}

// TestParts_OneBackendChanges_OnePartWritten changes any of the 5,000 backends of a Service, with
// parts of different origin.
func TestParts_OneBackendChanges_OnePartWritten(t *testing.T) {
	rows := arrange(verdictOf(5000, none), nil)
	if len(rows) != 20 || rows[0].Head == nil || rows[1].Head != nil {
		t.Fatalf("%d parts, want 20, of which the first has the head", len(rows))
	}
	for _, leaving := range []int{0, 2500, 4999} {
		without := arrange(verdictOf(5000, func(i int) bool { return i == leaving }), rows)
		if parts := changed(rows, without); len(parts) != 1 {
			t.Errorf("backend %d leaves, and %v change", leaving, parts)
		}
		if parts := changed(without, arrange(verdictOf(5000, none), without)); len(parts) != 1 {
			t.Errorf("backend %d comes back, and %v change", leaving, parts)
		}
	}
	if parts := changed(rows, arrange(verdictOf(5001, none), rows)); len(parts) != 1 {
		t.Errorf("one more comes, and %v change", parts)
	}
}

// TestParts_Largest_FitEtcd: etcd takes 1.5 MiB in one request.
func TestParts_Largest_FitEtcd(t *testing.T) {
	v := verdictOf(services.MaxJudged, none)
	for i := range v.Backends {
		b := &v.Backends[i]
		b.Node, b.PodUID = strings.Repeat("n", 253), strings.Repeat("u", 64)
		b.ForZones = slices.Repeat([]string{strings.Repeat("z", 63)}, 8)
	}
	rows := arrange(v, nil)
	if len(rows) != v1alpha1.MaxScaledParts {
		t.Fatalf("%d parts", len(rows))
	}
	for _, row := range rows {
		text, err := json.Marshal(&v1alpha1.ScaledEndpoint{ObjectMeta: metav1.ObjectMeta{Name: row.Name}, Spec: specOf(row)})
		if err != nil || len(text) > 1<<19 {
			t.Fatalf("part %d has %d bytes, want half a MiB at most; %v", row.Part, len(text), err)
		}
	}
	usual := specOf(arrange(verdictOf(5000, none), nil)[1])
	text, err := json.Marshal(usual)
	if err != nil || len(text) > 48<<10 {
		t.Errorf("a usual part has %d bytes, %v", len(text), err)
	}
}

// TestParts_AnyEarlierParts_AllBackends goes through random sizes.
func TestParts_AnyEarlierParts_AllBackends(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var rows []*scaled.Endpoint
	for step := range 20 {
		keep := r.Float64()
		v := verdictOf(r.IntN(6000), func(int) bool { return r.Float64() > keep })
		if step%10 == 9 {
			v = verdictOf(services.MaxJudged, none)
		}
		rows = arrange(v, rows)
		if diff := cmp.Diff(v.Backends, backendsOf(rows), cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Fatalf("step %d (-judged +written):\n%s", step, diff)
		}
		needed := max(1, (len(v.Backends)+v1alpha1.MaxScaledBackends-1)/v1alpha1.MaxScaledBackends)
		for _, row := range rows {
			if len(row.Backends) > v1alpha1.MaxScaledBackends || row.Part >= needed*spread || row.Part >= v1alpha1.MaxScaledParts ||
				(row.Head != nil) != (row.Part == 0) {
				t.Fatalf("step %d: part %d of %d needed has %d backends", step, row.Part, needed, len(row.Backends))
			}
		}
	}
}

// TestPart_WrittenAndRead_Equal: an object comes back as the row that it was made of.
func TestPart_WrittenAndRead_Equal(t *testing.T) {
	head := &scaled.Head{
		Created: metav1.Now().Rfc3339Copy().Time, Tenant: "blue", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("10.0.8.1")}, ExternalIPs: []netip.Addr{netip.MustParseAddr("2001:db8::1")}, ExternalLoadBalancer: true,
		Ports:               []store.ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}, {Protocol: "UDP", Port: 53}},
		HealthCheckNodePort: 32000, Affinity: 3 * 3600e9, NodeLocal: true, ExternalNodeLocal: true, SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Shared: true, LeftOut: true, AllJudged: 3, UsedRows: 7, UsedBackends: 9,
		InVPC: &scaled.VPC{VNI: 20, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd10::/48")}},
	}
	row := &scaled.Endpoint{
		Name: "shop.web.0.0", ID: scaled.ID{Namespace: "shop", Service: "web", ServiceUID: "u", VPC: "blue", VPCUID: "b", Exposed: true}, Head: head,
		Backends: []scaled.Backend{
			{IP: netip.MustParseAddr("10.0.0.2"), Node: "n", PodUID: "p", Terminating: true, Outside: true, OnHost: true, ForNodes: []string{"n"}},
			{IP: netip.MustParseAddr("10.0.0.1"), Listed: true, ForZones: []string{"z"}, Targets: []scaled.Target{{Protocol: "TCP", Port: 80, Target: 8080}}},
		},
	}
	read := func() *scaled.Endpoint {
		got, err := vpcs.ScaledEndpoint.Convert(&v1alpha1.ScaledEndpoint{ObjectMeta: metav1.ObjectMeta{Name: row.Name}, Spec: specOf(row)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	equal := cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
	if diff := cmp.Diff(row, read(), equal); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	for _, ranges := range [][]netip.Prefix{nil, {}} {
		head.SourceRanges = ranges
		if got := read().Head.SourceRanges; (got == nil) != (ranges == nil) {
			t.Errorf("%#v came back as %#v: nil permits all clients", ranges, got)
		}
	}
	broken := specOf(row)
	broken.Groups[0].Backends[0].IP = "10.0.0"
	if _, err := vpcs.ScaledEndpoint.Convert(&v1alpha1.ScaledEndpoint{Spec: broken}); err == nil {
		t.Error("10.0.0 is read as an address")
	}
}
