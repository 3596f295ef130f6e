// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/scale/transport"
)

func TestSize_EachNode_EqualPodsAndOwnAddress(t *testing.T) {
	s := Size{Nodes: 1000, Hollow: 50, PodsPerNode: 98}
	pods, ips := map[int]int{}, map[netip.Addr]bool{}
	for i := range s.Nodes {
		ips[nodeIP(i)] = true
		for pod := range s.PodsPerNode {
			host := s.hostOf(i, pod)
			pods[host]++
			if !s.vpcsOf(host, "default")[narrow(i)] {
				t.Fatalf("node %d has a pod of %s, and is not among its nodes", host, narrow(i))
			}
		}
	}
	for i := range s.Nodes {
		if pods[i] != s.PodsPerNode {
			t.Errorf("node %d has %d pods", i, pods[i])
		}
	}
	if len(ips) != s.Nodes {
		t.Errorf("%d addresses for %d nodes", len(ips), s.Nodes)
	}
	bouncers := 0
	for i := range s.Nodes {
		if s.mayBounce(i) {
			bouncers++
		}
	}
	if s.mayBounce(0) || s.mayBounce(1) || bouncers != s.Hollow/2 {
		t.Errorf("%d nodes may be bouncers", bouncers)
	}
	if s.addresses() < 100_000 {
		t.Errorf("the largest lab has %d Addresses, and the bars are for 100,000", s.addresses())
	}
}

func TestStart_UnusableSize_Refused(t *testing.T) {
	for _, s := range []Size{
		{},
		{Nodes: 3, Hollow: 2, Bouncers: 1, PodsPerNode: 2},
		{Nodes: 10, Hollow: 2, PodsPerNode: 2},
		{Nodes: 10, Hollow: 5, Bouncers: 3, PodsPerNode: 2},
		{Nodes: 10, Hollow: 10, Bouncers: 3, PodsPerNode: 2},
		{Nodes: 10, Hollow: 6, Bouncers: 3, PodsPerNode: 3},
	} {
		_, err := Start(t.Context(), Config{Size: s, Step: func(step string) { t.Errorf("%+v: %s", s, step) }})
		if err == nil || !strings.Contains(err.Error(), "lab") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// followedKinds returns the kinds that a daemon with the operator's verdicts follows.
func followedKinds() []*descriptor.Kind {
	cfg := cnid.DefaultConfig()
	cfg.ScaledEndpoints = true
	return cfg.Kinds()
}

// kindsOf returns the kinds that a holder follows, by their names.
func kindsOf(t *testing.T) map[string]*descriptor.Kind {
	t.Helper()
	all := map[string]*descriptor.Kind{}
	for _, kind := range followedKinds() {
		all[kind.Name] = discarding(kind, func(row any) bool { return isOwn("node-0001", map[string]bool{wide: true}, row) })
	}
	return all
}

func TestHolder_EachObject_OnlyOwnKept(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, UID: "1"} }
	address := func(node string) kube.Object {
		return &v1alpha1.Address{ObjectMeta: named("wide.10.60.0.1"), Spec: v1alpha1.AddressSpec{VPC: wide, IP: "10.60.0.1", Node: node, Set: []string{"10.60.0.1"}}}
	}
	all := kindsOf(t)
	for name, tt := range map[string]struct {
		kind   string
		object kube.Object
		kept   bool
	}{
		"its Node":              {"Node", &corev1.Node{ObjectMeta: named("node-0001")}, true},
		"another Node":          {"Node", &corev1.Node{ObjectMeta: named("node-0002")}, false},
		"its Address":           {"Address", address("node-0001"), true},
		"another's Address":     {"Address", address("node-0002"), false},
		"a VPC that is here":    {"VPC", &v1alpha1.VPC{ObjectMeta: named(wide)}, true},
		"a VPC that is not":     {"VPC", &v1alpha1.VPC{ObjectMeta: named("other")}, false},
		"a Subnet that is here": {"Subnet", &v1alpha1.Subnet{ObjectMeta: named(wide), Spec: v1alpha1.SubnetSpec{VPC: wide, CIDRs: []string{"10.60.0.0/16"}}}, true},
		"a Subnet that is not":  {"Subnet", &v1alpha1.Subnet{ObjectMeta: named("other"), Spec: v1alpha1.SubnetSpec{VPC: "other", CIDRs: []string{"10.60.0.0/16"}}}, false},
		"a role member":         {"RoleMember", &v1alpha1.RoleMember{ObjectMeta: named("member")}, true},
		"a verdict":             {"ScaledEndpoint", &v1alpha1.ScaledEndpoint{ObjectMeta: named("verdict")}, true},
		"the operator's call":   {"RollCall", &v1alpha1.RollCall{ObjectMeta: named(v1alpha1.OperatorRollCall), Spec: v1alpha1.RollCallSpec{Call: "1"}}, true},
		"a pod on the network":  {"Pod", &corev1.Pod{ObjectMeta: named("host"), Spec: corev1.PodSpec{HostNetwork: true}}, false},
	} {
		row, err := scopeOf(all[tt.kind]).Kind.Row(tt.object)
		if err != nil || (row != nil) != tt.kept {
			t.Errorf("%s: row %v (%v), kept: want %v", name, row, err, tt.kept)
		}
	}
	row, err := all["Address"].Of[descriptor.AllAddresses](wide).Kind.Row(address("node-0002"))
	if row != nil || err != nil {
		t.Errorf("another's Address by its VPC: row %v (%v)", row, err)
	}
}

// scopeOf returns any scope of a kind.
func scopeOf(kind *descriptor.Kind) descriptor.Scope {
	if kind.OnNode != nil {
		return kind.OnNode("node-0001")
	}
	for _, narrow := range kind.Of {
		return narrow("node-0001")
	}
	return descriptor.Scope{}
}

func TestHolder_Scopes_EqualDaemonScopes(t *testing.T) {
	all := kindsOf(t)
	for _, kind := range followedKinds() {
		both := map[string][2]func(string) descriptor.Scope{"node": {kind.OnNode, all[kind.Name].OnNode}}
		for extent, narrow := range kind.Of {
			both[fmt.Sprint("extent ", extent)] = [2]func(string) descriptor.Scope{narrow, all[kind.Name].Of[extent]}
		}
		for name, both := range both {
			if (both[0] == nil) != (both[1] == nil) {
				t.Errorf("%s of a %s is followed by one alone", kind.Name, name)
			}
			if both[0] == nil {
				continue
			}
			want, got := both[0]("a"), both[1]("a")
			if got.Fields != want.Fields && got.Fields.String() != want.Fields.String() || got.Unawaited != want.Unawaited || got.Kind.Name != want.Kind.Name {
				t.Errorf("%s of a %s: %+v, want %+v", kind.Name, name, got, want)
			}
		}
	}
}

func TestProgrammer_RemoteAddress_KnownSinceFirstPlan(t *testing.T) {
	p := &programmer{watched: 7, known: map[place]time.Time{}}
	ip := netip.MustParseAddr("10.60.0.1")
	apply := func(kind state.AddressKind) {
		part := &state.State{Addresses: []state.Address{{VNI: 7, IP: ip, Kind: kind}, {VNI: 7, IP: ip.Next(), Kind: state.Gateway}}}
		if _, err := p.Apply(plan.Wanted{Datapath: state.Parts{VPCs: map[uint32]*state.State{7: part, 8: part}}}, 0); err != nil {
			t.Fatal(err)
		}
	}
	apply(state.Remote)
	first, err := p.await(t.Context(), ip, false)
	if err != nil || first.IsZero() {
		t.Fatalf("a remote address: %v (%v)", first, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.await(ended, ip, true); err == nil {
		t.Error("a remote address counts as local")
	}
	before := maps.Clone(p.known)
	apply(state.Local)
	apply(state.Remote)
	if again, err := p.await(t.Context(), ip, false); err != nil || !again.Equal(before[place{ip, false}]) {
		t.Errorf("known since %v (%v), want the first plan's %v", again, err, first)
	}
	if _, err := p.await(t.Context(), ip, true); err != nil {
		t.Error(err)
	}
	if p.held() != 2 {
		t.Errorf("%d addresses are held in two VPCs with one each, beside gateways", p.held())
	}
}

func TestLabRows_Roles_MembersHoldWholeVPC(t *testing.T) {
	l := &Lab{Size: Size{Nodes: 10, Hollow: 6, Bouncers: 3, PodsPerNode: 4}, pods: 23, isolated: 1}
	const ofNodes = 20
	for node, want := range map[int]int{0: 4 + 4 + 1 + 23, 1: 4 + 4 + 1 + 23, 5: 4 + 4 + 23} {
		if got := l.rows(node); got != ofNodes+want {
			t.Errorf("full push: node %d needs %d addresses, want %d", node, got, ofNodes+want)
		}
	}
	l.members = map[string]map[int]bool{wide: {3: true, 4: true, 5: true}, narrow(0): {3: true}, narrow(2): {3: true}, narrow(9): {5: true}}
	for node, want := range map[int]int{0: 2 + 2 + 1 + 3, 1: 2 + 4 + 2, 3: 23 + 5 + 4 + 4, 5: 23 + 4 + 4 + 4, 9: 2 + 4 + 2} {
		if got := l.rows(node); got != ofNodes+want {
			t.Errorf("bouncers: node %d needs %d addresses, want %d", node, got, ofNodes+want)
		}
	}
	if !l.HoldsWide(3) || l.HoldsWide(0) || !l.HoldsIsolated(3) || l.HoldsIsolated(1) {
		t.Error("others than the members hold tables")
	}
}

func TestPhase_NodeCounts_ResultsComputed(t *testing.T) {
	events := func(n int) transport.Counts {
		return transport.Counts{"addresses": {Events: n, Bytes: 100 * n}, "vpcs": {Events: 1}, "rollcalls": {Events: 7}}
	}
	full := Phase{
		Isolated:  []transport.Counts{events(5), events(1), {"vpcs": {Events: 1}}, {"vpcs": {Events: 2}}},
		Concerned: map[int]bool{0: true, 1: true},
		Normal: Pushed{
			Pods:       2,
			Received:   []transport.Counts{events(2), events(2), events(3), events(3)},
			CPU:        map[string]time.Duration{"etcd": 3 * time.Millisecond},
			Everywhere: figures.Series{1},
		},
	}
	if got := full.AddressEvents(); got != 5 {
		t.Errorf("%g events per Address, want 5", got)
	}
	if got := full.EventBytes(); got != 500 {
		t.Errorf("%g bytes per pod, want 500", got)
	}
	if got := full.Foreign(); got != 2 {
		t.Errorf("%g events at a node without the VPC, want the most, 2", got)
	}
	if got := full.CPUPerAddress("etcd"); got != 1.5 {
		t.Errorf("%g ms per Address, want 1.5", got)
	}
	r := Result{Size: Size{Nodes: 4, Hollow: 2, Bouncers: 1, PodsPerNode: 2}, Full: full}
	var out strings.Builder
	if err := Print(&out, []Result{r}); err != nil || !strings.Contains(out.String(), "4 nodes") {
		t.Errorf("printed (%v):\n%s", err, out.String())
	}
	for name, chart := range Charts([]Result{r}) {
		if len(chart.Lines) == 0 || !strings.Contains(chart.SVG(), "<svg") {
			t.Errorf("chart %s has no lines", name)
		}
	}
}

func TestMissed_TooLargeOrNoFigure_Listed(t *testing.T) {
	good := Result{
		Size: Size{Nodes: 4, Hollow: 2, Bouncers: 1, PodsPerNode: 2}, Restarted: time.Second, Memory: 1,
		Roles: Phase{
			Isolated: []transport.Counts{{}, {}},
			Normal:   Pushed{Pods: 1, Received: []transport.Counts{{"addresses": {Events: 2}}}, Everywhere: figures.Series{programmedBar}},
		},
	}
	if missed := Missed([]Result{good}); len(missed) > 0 {
		t.Errorf("bars are missed: %v", missed)
	}
	for name, change := range map[string]func(*Result){
		"an event too many":           func(r *Result) { r.Roles.Normal.Received = []transport.Counts{{"addresses": {Events: 3}}} },
		"an event at another node":    func(r *Result) { r.Roles.Isolated = []transport.Counts{{}, {"vpcs": {Events: 1}}} },
		"programmed too late":         func(r *Result) { r.Roles.Normal.Everywhere = figures.Series{programmedBar + 1} },
		"not restarted":               func(r *Result) { r.Restarted = 0 },
		"too long until it was ready": func(r *Result) { r.Restarted = (readyBar + 1) * time.Second },
		"too much memory":             func(r *Result) { r.Memory = memoryBar*mebibyte + 1 },
	} {
		r := good
		change(&r)
		if missed := Missed([]Result{good, r}); len(missed) != 1 {
			t.Errorf("%s: missed are %v, want one", name, missed)
		}
	}
	if missed := Missed([]Result{{Size: good.Size}}); len(missed) != 5 {
		t.Errorf("nothing is measured, and missed are %v", missed)
	}
}
