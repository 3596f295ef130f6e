// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// outside returns an attachment without an end on the node, to a network outside of
// every VPC.
func outside(ifName, addr string) attachment.Decision {
	return attachment.Decision{
		IfName: ifName, Attachment: ifName, Binding: journal.Binding{Outside: "physical"},
		Interface: journal.Interface{
			Kind: attachmenttest.Kind, Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}, MAC: journal.MAC{2, 0, 0, 0, 7, 7}, Config: netif.Config{MTU: 1500},
		},
	}
}

func resultOf(t *testing.T, text string) types100.Result {
	t.Helper()
	var res types100.Result
	if err := json.Unmarshal([]byte(text), &res); err != nil {
		t.Fatal(err)
	}
	return res
}

// checkWith calls CHECK with the result of an ADD.
func (r *rig) checkWith(t *testing.T, p pod, result string) error {
	t.Helper()
	req := p.request("CHECK")
	req.Config = []byte(strings.TrimSuffix(string(req.Config), "}") + `,"prevResult":` + result + "}")
	if resp := r.server.Do(t.Context(), req); resp.Error != nil {
		return resp.Error
	}
	return nil
}

func (r *rig) recallAll(_ ifdriver.Kind, found ifdriver.Found) (journal.Record, error) {
	for _, p := range r.pods {
		for _, d := range r.decisions[p.uid] {
			if p.uid == found.PodUID && (d.IfName == found.IfName || d.IfName == "" && found.Request == "") {
				return journal.Record{
					Identity:  journal.Identity{Pod: journal.Pod{Namespace: "customer-a", Name: "web", UID: p.uid}, Attachment: d.Attachment},
					Binding:   d.Binding,
					Interface: d.Interface,
				}, nil
			}
		}
	}
	return journal.Record{}, errors.New("nobody decided about it")
}

// TestServer_DriverWithoutHostEnd_FullLifeServed is about a driver that only its own
// package and the registry name.
func TestServer_DriverWithoutHostEnd_FullLifeServed(t *testing.T) {
	r := newRig(t)
	p, other := r.newPod(t, 1), r.newPod(t, 2)
	r.decide(p.uid, outside("", "198.51.100.7/24"))
	r.decide(other.uid, outside("", "198.51.100.8/24"))
	result := r.add(t, p)
	r.add(t, other)
	res := resultOf(t, result)
	if len(res.Interfaces) != 1 || res.Interfaces[0].Name != "eth0" || res.Interfaces[0].Sandbox != p.netns.Path ||
		len(res.IPs) != 1 || *res.IPs[0].Interface != 0 {
		t.Errorf("the result is %s", result)
	}
	there := func(when string) journal.Record {
		t.Helper()
		rec, err := r.journal.Get(p.key())
		if err != nil || rec.Phase != journal.PhaseDone || rec.HostIfName != "" || rec.InVPC() || rec.Shadow4.IsValid() {
			t.Errorf("%s: the journal has %+v, %v", when, rec, err)
		}
		if got := append(r.node.Links(t), p.netns.Links(t)...); !slices.Equal(got, []string{"eth0"}) {
			t.Errorf("%s: node and pod have %v", when, got)
		}
		if err := r.checkWith(t, p, result); err != nil {
			t.Errorf("%s: CHECK: %v", when, err)
		}
		return rec
	}
	want := there("after ADD")
	r.restart(t)
	there("after a restart")
	if again := r.add(t, p); again != result {
		t.Errorf("a repeated ADD gives %s, want %s", again, result)
	}
	if done, err := r.manager.Resize(t.Context(), p.key(), 1400); done || err != nil {
		t.Errorf("it follows an MTU: %v, %v", done, err)
	}
	p.netns.Do(t, func() error {
		link, err := netlink.LinkByName("eth0")
		return errors.Join(err, netlink.LinkDel(link))
	})
	if err := r.checkWith(t, p, result); err == nil {
		t.Error("CHECK does not miss the interface")
	}
	if done, err := r.manager.Restore(t.Context(), p.key()); !done || err != nil {
		t.Errorf("it is made anew: %v, %v", done, err)
	}
	there("made anew")
	r.loseJournal(t)
	if left, err := r.manager.Adopt(t.Context(), r.recallAll); err != nil || len(left) > 0 {
		t.Errorf("unknown are %+v, %v", left, err)
	}
	got := there("adopted")
	if diff := cmp.Diff(want, got, compareByValue, cmpopts.IgnoreFields(journal.Record{}, "Begun", "Seq")); diff != "" {
		t.Errorf("record (-before +adopted):\n%s", diff)
	}
	other.netns.Close(t)
	gc := cniapi.Request{Command: "GC", Config: []byte(`{"cniVersion":"1.1.0","name":"alioth","cni.dev/valid-attachments":[]}`)}
	if resp := r.server.Do(t.Context(), gc); resp.Error != nil {
		t.Errorf("GC: %v", resp.Error)
	}
	if got := r.journal.Records(); len(got) != 1 || got[0].Key != p.key() {
		t.Errorf("GC leaves %+v", got)
	}
	there("after a GC")
	if r.programs != 0 {
		t.Errorf("the datapath was asked %d times", r.programs)
	}
	r.del(t, p)
	if got := p.netns.Links(t); len(got) != 0 {
		t.Errorf("the pod still has %v", got)
	}
	r.expectEmpty(t)
}

func TestADD_SeveralAttachments_OneCombinedResult(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.decide(p.uid, p.decision, outside("net1", "198.51.100.7/24"))
	var both sync.WaitGroup
	both.Add(2)
	r.at = func(step string) error {
		if step == beforeAttach { // neither goes on before the other has come
			both.Done()
			both.Wait()
		}
		return nil
	}
	result := r.add(t, p)
	r.at = func(string) error { return nil }
	res := resultOf(t, result)
	var names []string
	for _, iface := range res.Interfaces {
		names = append(names, iface.Name)
	}
	if len(names) != 3 || names[1] != "eth0" || names[2] != "net1" || res.Interfaces[0].Sandbox != "" {
		t.Errorf("interfaces are %v", names)
	}
	at := map[string]string{}
	for _, ip := range res.IPs {
		at[ip.Address.String()] = names[*ip.Interface]
	}
	if diff := cmp.Diff(map[string]string{"10.10.1.2/24": "eth0", "fd10:10:0:1::2/64": "eth0", "198.51.100.7/24": "net1"}, at); diff != "" {
		t.Errorf("addresses by interface (-want +got):\n%s", diff)
	}
	if got := p.netns.Links(t); !slices.Equal(got, []string{"eth0", "net1"}) && !slices.Equal(got, []string{"net1", "eth0"}) {
		t.Errorf("the pod has %v", got)
	}
	if err := r.checkWith(t, p, result); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	r.loseJournal(t)
	if left, err := r.manager.Adopt(t.Context(), r.recallAll); err != nil || len(left) > 0 {
		t.Errorf("unknown are %+v, %v", left, err)
	}
	if again := r.checkWith(t, p, result); again == nil {
		t.Error("CHECK passes before the datapath was programmed anew")
	}
	gc := cniapi.Request{
		Command: "GC",
		Config:  []byte(`{"cniVersion":"1.1.0","name":"alioth","cni.dev/valid-attachments":[{"containerID":"sandbox1","ifname":"eth0"}]}`),
	}
	if resp := r.server.Do(t.Context(), gc); resp.Error != nil || len(r.journal.Records()) != 2 {
		t.Errorf("a GC that lists the one asked for leaves %+v, %v", r.journal.Records(), resp.Error)
	}
	r.del(t, p)
	if got := p.netns.Links(t); len(got) != 0 {
		t.Errorf("the pod still has %v", got)
	}
	r.expectEmpty(t)
}

func TestADD_OneAttachmentFails_AllUndone(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.decide(p.uid, p.decision, outside("net1", "198.51.100.7/24"))
	p.netns.Do(t, func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "net1", TxQLen: -1}})
	})
	resp := r.server.Do(t.Context(), p.request("ADD"))
	if resp.Error == nil || !strings.Contains(resp.Error.Msg, ifdriver.ErrExists.Error()) {
		t.Errorf("ADD: %v", resp.Error)
	}
	if got := p.netns.Links(t); !slices.Equal(got, []string{"net1"}) {
		t.Errorf("the pod has %v, want what was there", got)
	}
	r.expectEmpty(t)
	if len(r.released) != 2 {
		t.Errorf("released are %v, want both", r.released)
	}
}

// NPWG 7.2: a DEL MUST go on after a failure, with all interfaces of the pod, and MUST
// return the failure.
func TestDEL_OneFailure_ContinuesAndReturnsError(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	r.decide(p.uid, p.decision, outside("net1", "198.51.100.7/24"), outside("net2", "198.51.100.8/24"))
	r.add(t, p)
	for _, fails := range []bool{true, false} {
		var failed atomic.Bool
		r.at = func(step string) error {
			if step == beforeDetach && fails && failed.CompareAndSwap(false, true) {
				return errors.New("the device is busy")
			}
			return nil
		}
		resp := r.server.Do(t.Context(), p.request("DEL"))
		if left := len(r.journal.Records()); (resp.Error != nil) != fails || (left == 1) != fails {
			t.Errorf("%v; left are %d records", resp.Error, left)
		}
	}
	r.expectEmpty(t)
}

// Multus calls the plugin once more for a definition of type alioth. All interfaces of a
// pod come with the first ADD, and another one would have the addresses of the first.
func TestADD_SecondInterface_Refused(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	result := r.add(t, p)
	second := p.request("ADD")
	second.IfName = "net1"
	resp := r.server.Do(t.Context(), second)
	if resp.Error == nil || resp.Error.Code != types.ErrInvalidNetworkConfig || !strings.Contains(resp.Error.Msg, annotations.NetworkKey) {
		t.Errorf("got %+v, want a refusal that names the annotation", resp.Error)
	}
	second.Command = "DEL" // as the runtime does after a failed ADD
	if resp := r.server.Do(t.Context(), second); resp.Error != nil {
		t.Errorf("DEL: %v", resp.Error)
	}
	if again := r.add(t, p); again != result {
		t.Errorf("the first interface is now %s", again)
	}
}
