// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/waits"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// patience bounds every wait; a busy machine must not fail a test.
const patience = time.Minute

// asUser returns a client with the rights of a user.
func asUser(t *testing.T, user string, wrap func(http.RoundTripper) http.RoundTripper) *kube.Client {
	t.Helper()
	config := server.Config(t)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	if wrap != nil {
		config.Wrap(wrap)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(config, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// address makes the Address of an IP of the VPC blue on the other node.
func address(t *testing.T, addr netip.Addr) {
	t.Helper()
	object := &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName("blue", addr)},
		Spec: v1alpha1.AddressSpec{
			VPC: "blue", Subnet: "blue-net1", IP: addr.String(), MAC: "02:00:00:00:00:01", Node: other, Set: []string{addr.String()},
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "default", Name: "p", UID: addr.String()}, Attachment: v1alpha1.PodAttachment,
		},
	}
	admin := asUser(t, "", nil)
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.Background(), object, object.UID) })
}

// onServer is a loop that asks the API server.
func onServer(t *testing.T, client *kube.Client, rows ...state.Cached) *world {
	t.Helper()
	w := ready(t, NewAPI(client), func() time.Duration { return monotonic(t) }, rows...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the table has %v", w.table.rows)
		}
	})
	return w
}

func monotonic(t *testing.T) time.Duration {
	t.Helper()
	now, err := datapath.MonotonicNow()
	if err != nil {
		t.Error(err)
	}
	return now
}

// until has packets miss an address of the VNI 7 until the condition holds.
func (w *world) until(t *testing.T, what string, addr netip.Addr, holds func() bool) {
	t.Helper()
	w.untilOf(t, what, 7, addr, holds)
}

func (w *world) untilOf(t *testing.T, what string, vni uint32, addr netip.Addr, holds func() bool) {
	t.Helper()
	deadline := time.After(waits.Limit(patience))
	packets := time.NewTicker(20 * time.Millisecond)
	defer packets.Stop()
	for !holds() {
		w.reports.misses <- state.Miss{VNI: vni, IP: addr, Ifindex: 5}
		select {
		case <-packets.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// leads reports whether packets to an address are sent to the other node.
func (w *world) leads(addr netip.Addr) func() bool {
	return func() bool {
		row, ok := w.table.of(addr)
		return ok && row.Node == ip("192.0.2.2") && row.MAC == state.MAC{2, 0, 0, 0, 0, 1}
	}
}

// counts returns whether a result has come more often than at the time of the call.
func (w *world) counts(result cache.Result) func() bool {
	before := w.count(string(result))
	return func() bool { return w.count(string(result)) > before }
}

func TestLookupRow_APIAddressComesAndGoes_Follows(t *testing.T) {
	w := onServer(t, asUser(t, "", nil))
	for _, addr := range []netip.Addr{ip("10.0.1.1"), ip("fd00::1:1"), ip("fd00:1::")} {
		w.until(t, "no such Address", addr, w.counts(cache.NotFound))
		if w.table.has(7) {
			t.Fatal("an Address that does not exist has a row")
		}
	}
	for _, addr := range []netip.Addr{ip("10.0.1.1"), ip("fd00::1:1"), ip("fd00:1::")} {
		t.Run(addr.String(), func(t *testing.T) {
			address(t, addr)
			w.until(t, "the Address has a row", addr, w.leads(addr))
		})
		w.until(t, "the row of an Address that is gone ends", addr, func() bool { return !w.leads(addr)() })
	}
}

func TestLookup_RightMissing_NoNewRowOldKept(t *testing.T) {
	old := ip("10.0.2.9")
	w := onServer(t, asUser(t, "nobody", nil), state.Cached{VNI: 7, IP: old, Node: ip("192.0.2.2"), MAC: state.MAC{2, 0, 0, 0, 0, 1}, Used: monotonic(t)})
	address(t, ip("10.0.2.1"))
	w.until(t, "the request is forbidden", ip("10.0.2.1"), w.counts(cache.Failed))
	if w.leads(ip("10.0.2.1"))() || !w.leads(old)() {
		t.Error("a request that was forbidden changed rows")
	}
}

func TestLookup_APIServerOverloaded_PacketsStayOnRole(t *testing.T) {
	relieve := overload(t, "crowd")
	w := onServer(t, asUser(t, "crowd", nil))
	address(t, ip("10.0.3.1"))
	w.until(t, "the API server refuses", ip("10.0.3.1"), w.counts(cache.Refused))
	if w.leads(ip("10.0.3.1"))() {
		t.Error("a refusal became a row")
	}
	relieve()
	w.until(t, "the API server answers", ip("10.0.3.1"), w.leads(ip("10.0.3.1")))
}

// gate holds answers back.
type gate struct {
	next http.RoundTripper
	// held gets each answer that waits; it goes on once open is closed.
	held chan struct{}
	open chan struct{}
}

func newGate() *gate { return &gate{held: make(chan struct{}, 16), open: make(chan struct{})} }

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper { g.next = next; return g }

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	g.held <- struct{}{}
	select {
	case <-g.open:
		return response, nil
	case <-request.Context().Done():
		response.Body.Close()
		return nil, request.Context().Err()
	}
}

func TestLookup_SlowAnswer_NotAwaited(t *testing.T) {
	g := newGate()
	w := onServer(t, asUser(t, "", g.wrap))
	address(t, ip("10.0.4.1"))
	w.until(t, "the question is given up", ip("10.0.4.1"), w.counts(cache.Slow))
	if w.table.has(7) {
		t.Error("there is a row without an answer")
	}
	close(g.open)
	w.until(t, "the API server answers again", ip("10.0.4.1"), w.leads(ip("10.0.4.1")))
}

func TestLookup_VPCRecreatedMeanwhile_AnswerUnused(t *testing.T) {
	g := newGate()
	w := onServer(t, asUser(t, "", g.wrap))
	address(t, ip("10.0.5.1"))
	found, slow := w.counts(cache.Found), w.counts(cache.Slow)
	w.miss(ip("10.0.5.1"))
	<-g.held
	w.vpc(t, "blue", "blue-2", 9)
	close(g.open)
	// A machine that stalls for two seconds here makes it a slow one.
	w.until(t, "the answer comes", ip("10.0.5.1"), func() bool { return found() || slow() })
	if w.table.has(7) || w.table.has(9) {
		t.Errorf("rows: %v", w.table.rows)
	}
	w.untilOf(t, "the VPC gets a row by another question", 9, ip("10.0.5.1"), func() bool { return w.table.has(9) })
}

func TestLookup_APIServerDown_RowsKeptQuestionsFail(t *testing.T) {
	w := onServer(t, asUser(t, "", nil))
	address(t, ip("10.0.6.1"))
	address(t, ip("10.0.6.2"))
	w.until(t, "the Address has a row", ip("10.0.6.1"), w.leads(ip("10.0.6.1")))
	server.Server(t).Interrupt()
	w.until(t, "the question fails", ip("10.0.6.2"), w.counts(cache.Failed))
	w.until(t, "the question for a row fails", ip("10.0.6.1"), w.counts(cache.Failed))
	if !w.leads(ip("10.0.6.1"))() || w.leads(ip("10.0.6.2"))() {
		t.Error("rows changed while the API server is away")
	}
	if err := server.Server(t).Resume(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the API server is back", ip("10.0.6.2"), w.leads(ip("10.0.6.2")))
}
