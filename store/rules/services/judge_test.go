// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// known implements services.Knowledge with one answer for all Services and VPCs.
type known struct{ shared, reserved, partial bool }

// Shared implements services.Knowledge.
func (k known) Shared(*store.Service) bool { return k.shared }

// Reserved implements services.Knowledge.
func (k known) Reserved(*store.Service) bool { return k.reserved }

// Partial implements services.Knowledge.
func (k known) Partial(string) bool { return k.partial }

// TestJudge_AddressesMissing_SliceSelectsOtherNode: a node that does not carry a VPC
// believes the node names of its slices, but not its own name, and the operator none.
func TestJudge_AddressesMissing_SliceSelectsOtherNode(t *testing.T) {
	for name, c := range map[string]struct {
		node, uid, ip string
		selectorless  bool
		partial       bool
		want          int
	}{
		"another node":                   {"node-2", "p", "10.0.0.2", false, true, 1},
		"another node, by hand":          {"node-2", "", "10.0.0.2", true, true, 1},
		"another node, no pod":           {"node-2", "", "10.0.0.2", false, true, 0},
		"this node":                      {"node-1", "p", "10.0.0.2", false, true, 0},
		"no node":                        {"", "p", "10.0.0.2", false, true, 0},
		"outside of the VPC":             {"node-2", "p", "192.0.2.9", false, true, 0},
		"another node, to all Addresses": {"node-2", "p", "10.0.0.2", false, false, 0},
	} {
		web := service("blue-a", "web", "", "10.96.0.1")
		web.Selectorless, web.Ports = c.selectorless, []store.ServicePort{http80}
		e := endpoint(true, false, c.ip)
		e.Node, e.PodUID = c.node, c.uid
		operatortest.New(t, operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16"), web, namespace("blue-a", "blue"),
			slice("a", store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}, e)).View(func(tx store.ReadTx) {
			v := services.JudgeIn(tx, services.Rules{DefaultVPC: "default", Knowledge: known{partial: c.partial}, Node: "node-1"}, "blue-vpc", web)
			spread := v.Spread(tx, "node-1", http80, ipfamily.IPv4)
			if len(spread.Elsewhere) != c.want || len(spread.Here) != 0 {
				t.Errorf("%s: %+v, want %d other nodes", name, spread, c.want)
			}
		})
	}
}

// TestJudge_SharedService_AllEndpointsListed: they may be anywhere. To its own VPC alone such an
// address means nothing.
func TestJudge_SharedService_AllEndpointsListed(t *testing.T) {
	web := service("blue-a", "web", "", "10.96.0.1")
	web.Ports = []store.ServicePort{http80}
	target := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	foreign := slice("b", target, endpoint(true, false, "172.16.0.1"))
	foreign.Domain = "red-vpc"
	s := operatortest.New(t, operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16"), web, namespace("blue-a", "blue"), held("10.0.0.1", "node-1"),
		slice("a", target, endpoint(true, false, "10.0.0.1", "10.0.0.9"), endpoint(false, false, "10.0.0.8")), foreign,
		slice("c", store.ServicePort{Name: "other", Protocol: "TCP", Port: 1}, endpoint(true, false, "10.0.0.7")))
	s.View(func(tx store.ReadTx) {
		for what, rules := range map[string]services.Rules{
			"shared":   {Knowledge: known{shared: true}},
			"reserved": {Knowledge: known{reserved: true}},
		} {
			v := services.JudgeIn(tx, rules, "blue-vpc", web)
			var all []string
			for _, b := range v.Backends {
				all = append(all, b.IP.String())
			}
			if want := []string{"10.0.0.1", "10.0.0.7", "10.0.0.8", "10.0.0.9", "172.16.0.1"}; !slices.Equal(all, want) || !v.Exposed || v.Shared != (what == "shared") {
				t.Errorf("%s: addresses %v, exposed %v, shared %v; want %v on every node", what, all, v.Exposed, v.Shared, want)
			}
			if got := fmt.Sprint(v.Everywhere(http80, ipfamily.IPv4)); got != "[10.0.0.1:8080 10.0.0.9:8080 172.16.0.1:8080]" {
				t.Errorf("%s: every VPC reaches %s", what, got)
			}
			if got := v.Reached(tx, "node-1", http80, ipfamily.IPv4); len(got) != 1 || got[0].String() != "10.0.0.1:8080" {
				t.Errorf("%s: the VPC alone reaches %v", what, got)
			}
		}
	})
}

// TestJudge_EndpointsLeftOut_VerdictTells: nodes leave a Service without backends to
// another proxy only if that may have one.
func TestJudge_EndpointsLeftOut_VerdictTells(t *testing.T) {
	const counts, other = "10.0.0.1", "10.0.0.9"
	for name, c := range map[string]struct {
		vpc       string
		shared    bool
		endpoints []store.Endpoint
		want      bool
	}{
		"no endpoint":           {"default", false, nil, false},
		"a backend":             {"default", false, []store.Endpoint{endpoint(true, false, counts)}, false},
		"an address of nobody":  {"default", false, []store.Endpoint{endpoint(true, false, other)}, true},
		"a backend and another": {"default", false, []store.Endpoint{endpoint(true, false, counts, other)}, true},
		"one that serves still": {"default", false, []store.Endpoint{endpoint(false, true, other)}, true},
		"one that is not ready": {"default", false, []store.Endpoint{endpoint(false, false, other)}, false},
		"another VPC":           {"elsewhere", false, []store.Endpoint{endpoint(true, false, other)}, false},
		"a shared Service":      {"default", true, []store.Endpoint{endpoint(true, false, other)}, false},
	} {
		web := service("blue-a", "web", "", "10.96.0.1")
		web.Ports = []store.ServicePort{http80}
		backend := held(counts, "node-1")
		backend.VPC = "default"
		operatortest.New(
			t,
			operatortest.VPC("default", 1, []string{"*"}, "10.0.0.0/16"),
			operatortest.VPC("elsewhere", 2, []string{"*"}, "10.0.0.0/16"),
			web,
			namespace("blue-a", "blue"),
			backend,
			slice("a", store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}, c.endpoints...),
		).View(func(tx store.ReadTx) {
			v := services.JudgeIn(tx, services.Rules{DefaultVPC: "default", Knowledge: known{shared: c.shared}}, c.vpc, web)
			if v.LeftOut != c.want {
				t.Errorf("%s: left out %t, want %t", name, v.LeftOut, c.want)
			}
		})
	}
}

// TestJudge_SliceWithoutServicePort_NothingLeftOut: the operator lists the endpoints of the API
// server's Service in any case, and a node that judges by itself does not. Both have one verdict.
func TestJudge_SliceWithoutServicePort_NothingLeftOut(t *testing.T) {
	web := service("blue-a", "web", "", "10.96.0.1")
	web.Ports = []store.ServicePort{http80}
	operatortest.New(t, operatortest.VPC("default", 1, []string{"*"}, "10.0.0.0/16"), web, namespace("blue-a", "blue"),
		slice("a", store.ServicePort{Name: "other", Protocol: "TCP", Port: 8080}, endpoint(true, false, "10.0.0.9"))).View(func(tx store.ReadTx) {
		for _, reserved := range []bool{false, true} {
			rules := services.Rules{DefaultVPC: "default", Knowledge: known{reserved: reserved}}
			if v := services.JudgeIn(tx, rules, "default", web); v.LeftOut || len(v.Backends) != 0 && !reserved {
				t.Errorf("reserved %t: left out %t, backends %v", reserved, v.LeftOut, v.Backends)
			}
		}
	})
}

// TestJudge_AnySlices_VerdictLimited: tenants write slices with any content.
func TestJudge_AnySlices_VerdictLimited(t *testing.T) {
	web := service("blue-a", "web", "", "10.96.0.1")
	web.Selectorless = true
	for i := range 1200 {
		web.Ports = append(web.Ports, store.ServicePort{Name: fmt.Sprint(i), Protocol: "TCP", Port: uint16(i + 1)})
	}
	vpc := operatortest.VPC("default", 1, []string{"*"}, "10.0.0.0/16")
	vpc.EgressMasquerade = true
	rows := []any{vpc, web, namespace("blue-a", "blue"), &store.Node{Meta: operatortest.Meta("n", 0), Name: "node-1", Addresses: operatortest.Addrs("192.0.2.1")}}
	far := netip.MustParseAddr("2001:db8::")
	for i := range 20 {
		e := endpoint(i > 0, true)
		for range 1000 {
			far = far.Next()
			e.Addresses = append(e.Addresses, far)
		}
		row := slice(fmt.Sprint(i), web.Ports[0], e)
		row.Ports[0].Port = 8080
		rows = append(rows, row)
	}
	host := endpoint(true, false, "192.0.2.1")
	host.Node, host.PodUID = "node-1", strings.Repeat("u", 65)
	rows = append(rows, slice("host", web.Ports[0], host))
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		v := services.JudgeIn(tx, services.Rules{DefaultVPC: "default", Knowledge: known{}}, "default", web)
		if len(v.Backends) != services.MaxJudged || len(v.Ports) != 1000 {
			t.Errorf("%d backends, %d ports; want %d and 1000", len(v.Backends), len(v.Ports), services.MaxJudged)
		}
		for _, b := range v.Backends {
			if len(b.PodUID) > 64 || b.Terminating {
				t.Fatalf("%+v counts before those that are ready, or has a UID that is too long", b)
			}
		}
	})
}

func row(name string, id scaled.ID, part int, head *scaled.Head, ips ...string) *scaled.Endpoint {
	e := &scaled.Endpoint{Name: name, ID: id, Part: part, Head: head}
	for _, ip := range ips {
		e.Backends = append(e.Backends, scaled.Backend{IP: netip.MustParseAddr(ip), PodUID: "p" + ip})
	}
	return e
}

func TestVerdict_Parts_PutTogether(t *testing.T) {
	head := func(second int64) *scaled.Head { return &scaled.Head{Created: time.Unix(second, 0)} }
	now := scaled.ID{Namespace: "shop", Service: "web", ServiceUID: "2", VPC: "blue", VPCUID: "b"}
	before, moved, lan, wan := now, now, now, now
	before.ServiceUID, moved.VPCUID = "1", "another"
	lan.VPC, wan.VPC, lan.VPCUID, wan.VPCUID = "lan.net", "wan.net", "", ""
	later := row("later", moved, 0, head(2), "10.0.0.9")
	later.Created = time.Unix(9, 0)
	for name, c := range map[string]struct {
		rows    []*scaled.Endpoint
		home    string
		outside []string
	}{
		"nothing":                     {},
		"one part":                    {[]*scaled.Endpoint{row("a", now, 0, head(2), "10.0.0.2")}, "blue [10.0.0.2]", nil},
		"several, one backend in two": {[]*scaled.Endpoint{row("b", now, 1, nil, "10.0.0.1", "10.0.0.2"), row("a", now, 0, head(2), "10.0.0.2", "10.0.0.3")}, "blue [10.0.0.1 10.0.0.2 10.0.0.3]", nil},
		"without the head":            {[]*scaled.Endpoint{row("b", now, 1, nil, "10.0.0.1")}, "", nil},
		"of another life of the Service": {
			[]*scaled.Endpoint{row("x", before, 0, head(1), "10.0.0.1"), row("y", before, 1, nil, "10.0.0.2"), row("a", now, 0, head(2), "10.0.0.3")}, "blue [10.0.0.3]", nil,
		},
		"of another life of the VPC": {[]*scaled.Endpoint{later, row("a", now, 0, head(2), "10.0.0.3")}, "blue [10.0.0.9]", nil},
		"in networks": {
			[]*scaled.Endpoint{row("w", wan, 0, head(2), "10.0.0.1"), row("l", lan, 0, head(2)), row("a", now, 0, head(2), "10.0.0.3")},
			"blue [10.0.0.3]",
			[]string{"lan.net []", "wan.net [10.0.0.1]"},
		},
	} {
		for range 2 {
			home, outside := services.FromRows(c.rows)
			got, in := "", []string(nil)
			if home != nil {
				got = text(home)
			}
			for _, v := range outside {
				in = append(in, text(v))
			}
			if diff := cmp.Diff(c.outside, in); got != c.home || diff != "" {
				t.Errorf("%s: %q, want %q; in networks (-want +got):\n%s", name, got, c.home, diff)
			}
			slices.Reverse(c.rows)
		}
	}
}

func text(v *services.Verdict) string {
	ips := []netip.Addr{}
	for _, b := range v.Backends {
		ips = append(ips, b.IP)
	}
	return fmt.Sprintf("%s %v", v.VPC, ips)
}
