// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"

	"github.com/alioth-net/alioth/api/netif"
)

// ofFirstFormat is a record as releases wrote it before records had parts.
const ofFirstFormat = `{
	"containerID": "sandbox", "ifName": "eth0", "pod": {"namespace": "ns", "name": "p", "uid": "uid"},
	"cniNetwork": "alioth", "netnsPath": "/run/netns/x", "kind": "netkit", "attachment": "eth0", "hostIfName": "alv0",
	"vpc": "blue", "vni": 20, "addrs": ["10.10.1.2/24"], "subnets": ["net1"], "gateways": ["10.10.1.1"], "mac": "02:00:0a:0a:01:02",
	"mtu": 1450, "altName": "nic", "probed": true, "shadow4": "169.254.64.2", "shadow6": "", "seq": 7, "begun": "2026-01-02T03:04:05Z",
	"phase": "done", "device": {"hostIfindex": 9, "netnsInode": 10, "netnsCookie": 11}
}`

func TestRecord_FirstFormat_ReadIntoParts(t *testing.T) {
	var got Record
	if err := json.Unmarshal([]byte(ofFirstFormat), &got); err != nil {
		t.Fatal(err)
	}
	want := Record{
		Identity: Identity{
			Key: Key{ContainerID: "sandbox", IfName: "eth0"}, Pod: Pod{Namespace: "ns", Name: "p", UID: "uid"},
			CNINetwork: "alioth", NetnsPath: "/run/netns/x", Attachment: "eth0",
		},
		Binding: Binding{VPC: "blue", VNI: 20, Subnets: []string{"net1"}},
		Interface: Interface{
			Kind: "netkit", HostIfName: "alv0", Addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.2/24")},
			Gateways: []netip.Addr{netip.MustParseAddr("10.10.1.1")}, MAC: MAC{2, 0, 10, 10, 1, 2}, Config: netif.Config{MTU: 1450}, AltName: "nic",
			Device: Device{HostIfindex: 9, NetnsInode: 10, NetnsCookie: 11},
		},
		Probed: true, Shadow4: netip.MustParseAddr("169.254.64.2"), Seq: 7, Begun: got.Begun, Phase: PhaseDone,
	}
	if !reflect.DeepEqual(got, want) || got.Begun.IsZero() {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !got.InVPC() || got.RequestKey() != got.Key {
		t.Errorf("it is in a VPC: %v, belongs to request %s", got.InVPC(), got.RequestKey())
	}
}

// TestRecord_Write_SingleLevel: what reads status and dump of a node goes by
// these names, and so does an earlier release that gets the file back.
func TestRecord_Write_SingleLevel(t *testing.T) {
	var rec Record
	var want, got map[string]any
	if err := json.Unmarshal([]byte(ofFirstFormat), &rec); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	for text, fields := range map[string]*map[string]any{ofFirstFormat: &want, string(text): &got} {
		if err := json.Unmarshal([]byte(text), fields); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestRecord_EachPodUID_MatchesRequestedPod: the runtime has another UID of a static pod than the
// API. A record without that UID is for a pod with one.
func TestRecord_EachPodUID_MatchesRequestedPod(t *testing.T) {
	pod := Pod{Namespace: "ns", Name: "p", UID: "uid"}
	static := Identity{Pod: pod, RuntimeUID: "computed"}
	asked := Pod{Namespace: "ns", Name: "p", UID: "computed"}
	for name, c := range map[string]struct {
		one  Identity
		pod  Pod
		want bool
	}{
		"one UID":                     {Identity{Pod: pod}, pod, true},
		"another UID":                 {Identity{Pod: pod}, asked, false},
		"another name":                {Identity{Pod: pod}, Pod{Namespace: "ns", Name: "q", UID: "uid"}, false},
		"static":                      {static, asked, true},
		"static, by the mirror's UID": {static, pod, true},
		"static, without a UID":       {static, Pod{Namespace: "ns", Name: "p"}, false},
		"without a UID":               {Identity{Pod: Pod{Namespace: "ns", Name: "p"}}, Pod{Namespace: "ns", Name: "p"}, true},
		"static, another namespace":   {static, Pod{Namespace: "other", Name: "p", UID: "computed"}, false},
	} {
		if got := c.one.AskedFor(c.pod); got != c.want {
			t.Errorf("%s: AskedFor(%+v) is %v", name, c.pod, got)
		}
	}
}
