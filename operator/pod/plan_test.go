// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

func world() []any {
	return []any{
		operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16", "fd00::/48"),
		operatortest.Subnet("s1", "v", "net1", 0, "10.0.1.0/24", "fd00:0:0:1::/64"),
		operatortest.VPC("default", 2, []string{"*"}, "10.244.0.0/16"),
		operatortest.Subnet("default", "default", "default", 0, "10.244.0.0/16"),
		operatortest.Network("blue", "a", "n", "v", 0),
	}
}

// assignedPod returns a pod with its allocation status.
func assignedPod(t *testing.T, ips ...string) *store.Pod {
	t.Helper()
	pod := operatortest.Pod("blue", "a", "p", "n", "")
	attachment := netif.Interface{Name: "eth0", Network: "a/n", VPC: "v", Subnet: "s1"}
	for _, ip := range ips {
		attachment.Addresses = append(attachment.Addresses, netip.PrefixFrom(netip.MustParseAddr(ip), 24))
	}
	text, err := annotations.FormatAttachments([]netif.Interface{attachment})
	if err != nil {
		t.Fatal(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason = text, true, v1alpha1.AttachedReason
	return pod
}

func primary() []Source { return []Source{Primary("default")} }

// only returns the desired attachment of a decision that has one.
func only(t *testing.T, d decision) Desired {
	t.Helper()
	if len(d.desired) != 1 {
		t.Fatalf("decided %+v, want one attachment", d)
	}
	return d.desired[0]
}

func TestDecide_Annotation_Requested(t *testing.T) {
	for _, tc := range []struct {
		name, nic        string
		subnet           string
		ips              []netip.Addr
		altName          string
		label            string
		wantVPC, wantNet string
	}{
		{name: "nothing", label: "n", wantVPC: "v", wantNet: "a/n"},
		{name: "no label", wantVPC: "default"},
		{name: "a subnet", label: "n", nic: `{"subnet": "net1"}`, subnet: "net1", wantVPC: "v", wantNet: "a/n"},
		{name: "an IP", label: "n", nic: `{"ip": "10.0.1.9"}`, ips: operatortest.Addrs("10.0.1.9"), wantVPC: "v", wantNet: "a/n"},
		{name: "an IP per family", label: "n", nic: `{"ip": "10.0.1.9,fd00:0:0:1::9"}`, ips: operatortest.Addrs("10.0.1.9", "fd00:0:0:1::9"), wantVPC: "v", wantNet: "a/n"},
		{name: "the runtime's interface name", label: "n", nic: `{"name": "eth0"}`, wantVPC: "v", wantNet: "a/n"},
		{name: "another interface name", label: "n", nic: `{"name": "net0"}`, altName: "net0", wantVPC: "v", wantNet: "a/n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := operatortest.Pod("blue", "a", "p", tc.label, tc.nic)
			pod.OwnerUID = "owner"
			operatortest.New(t, append(world(), pod)...).View(func(tx store.ReadTx) {
				d := decide(tx, pod, primary())
				w := only(t, d)
				r := w.request(pod)
				if d.verb != assign || r.VPC != tc.wantVPC || w.Network != tc.wantNet || r.Subnet != tc.subnet ||
					!slices.Equal(r.IPs, tc.ips) || w.AltName != tc.altName {
					t.Errorf("decided %+v", d)
				}
				if r.Node != "node-1" || r.Holder.UID != pod.UID || r.Attachment != "eth0" || r.OwnerUID != "owner" {
					t.Errorf("request is for the wrong one: %+v", r)
				}
			})
		})
	}
}

func TestDecide_Unreadable_Refused(t *testing.T) {
	for _, nic := range []string{`{name: eth0}`, `{"ips": "10.0.1.9"}`, `{"ip": "10.0.1.300"}`, `[]`, `{"ip": "10.0.1.9,10.0.1.8"}`} {
		pod := operatortest.Pod("blue", "a", "p", "n", nic)
		operatortest.New(t, append(world(), pod)...).View(func(tx store.ReadTx) {
			d := decide(tx, pod, primary())
			if d.verb != refuse || d.refusal.Reason != v1alpha1.NICInvalidReason || !strings.Contains(d.refusal.Message, "arktos.futurewei.com/nic") {
				t.Errorf("nic %s: %+v, want it refused", nic, d)
			}
		})
	}
}

func TestDecide_NothingNeeded_LeftAlone(t *testing.T) {
	change := func(change func(*store.Pod)) *store.Pod {
		pod := operatortest.Pod("blue", "a", "p", "n", "")
		change(pod)
		return pod
	}
	written := assignedPod(t, "10.0.1.9")
	moved := assignedPod(t, "10.0.1.9")
	moved.Network = "gone"
	for _, tc := range []struct {
		name string
		pod  *store.Pod
	}{
		{"not bound", change(func(p *store.Pod) { p.Node = "" })},
		{"ended", change(func(p *store.Pod) { p.Terminal = true })},
		{"being deleted", change(func(p *store.Pod) { p.Deleting = true })},
		{"it has what it was written", written},
		{"it has what it was assigned, though its Network is gone", moved},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address := operatortest.Address("v", "s1", "10.0.1.9", written)
			operatortest.New(t, append(world(), tc.pod, address)...).View(func(tx store.ReadTx) {
				if d := decide(tx, tc.pod, primary()); d.verb != leave {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}

// TestFirstRequests_Start_OnlyPodsWithNeed: among pods with an allocation status,
// and before all others.
func TestFirstRequests_Start_OnlyPodsWithNeed(t *testing.T) {
	r := New(Options{Sources: primary()})
	written := assignedPod(t, "10.0.1.9")
	fresh := operatortest.Pod("blue", "a", "fresh", "n", "")
	for name, c := range map[string]struct {
		rows []any
		want []feed.Request
	}{
		"nothing is lost":        {[]any{operatortest.Address("v", "s1", "10.0.1.9", written)}, []feed.Request{feed.Now("a", "fresh")}},
		"the address is lost":    {nil, []feed.Request{feed.Now("a", "p"), feed.Now("a", "fresh")}},
		"one more that it holds": {[]any{operatortest.Address("v", "s1", "10.0.1.9", written), operatortest.Address("w", "s1", "10.0.1.9", written)}, []feed.Request{feed.Now("a", "p"), feed.Now("a", "fresh")}},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, append(append(world(), fresh, written), c.rows...)...).View(func(tx store.ReadTx) {
				if got, _ := r.undecided(tx); !slices.Equal(got, c.want) {
					t.Errorf("requests %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestDecide_AnnotationsWithoutCondition_Ignored(t *testing.T) {
	forged := assignedPod(t, "10.0.1.9")
	forged.Reason = ""
	operatortest.New(t, append(world(), forged)...).View(func(tx store.ReadTx) {
		if d := decide(tx, forged, primary()); d.verb != assign || len(only(t, d).IPs) > 0 {
			t.Errorf("decided %+v, want an ordinary assignment", d)
		}
	})
}

// kept returns an address whose object is gone and that the operator keeps for its pod.
func kept(row *store.Address) *store.Address {
	row.UID, row.ResourceVersion, row.Kept = "", "", true
	return row
}

// TestDecide_PartOfSetLeft_RestClaimedAgain: one Address names the whole set.
func TestDecide_PartOfSetLeft_RestClaimedAgain(t *testing.T) {
	pod := assignedPod(t, "10.0.1.9", "fd00:0:0:1::9")
	moved := assignedPod(t, "10.0.1.9", "fd00:0:0:1::9")
	moved.Network = "gone"
	four := func() *store.Address { return operatortest.Address("v", "s1", "10.0.1.9", pod, "fd00:0:0:1::9") }
	six := operatortest.Address("v", "s1", "fd00:0:0:1::9", pod)
	six.Set = four().Set
	stray := operatortest.Address("v", "s1", "10.0.1.7", pod)
	for name, tc := range map[string]struct {
		pod  *store.Pod
		rows []any
	}{
		"one object":                            {pod, []any{four()}},
		"one object, the Network is gone":       {moved, []any{four()}},
		"none, and the operator remembers":      {pod, []any{kept(four())}},
		"both, and one more of a late operator": {pod, []any{four(), six, stray}},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, append(append(world(), tc.pod), tc.rows...)...).View(func(tx store.ReadTx) {
				d := decide(tx, tc.pod, primary())
				want := operatortest.Addrs("10.0.1.9", "fd00:0:0:1::9")
				w := only(t, d)
				r := w.request(tc.pod)
				if d.verb != restore || d.rewrite || r.VPC != "v" || r.Subnet != "s1" || !slices.Equal(r.IPs, want) || !slices.Equal(w.Prefer, want) {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}

// TestDecide_NoObjectLeft_DecidedAnew has any annotation. The annotation is a desired attachment that
// passes the checks of a new pod, or nothing.
func TestDecide_NoObjectLeft_DecidedAnew(t *testing.T) {
	both := []string{"10.0.1.9", "fd00:0:0:1::9"}
	pod := func(change func(*store.Pod), ips ...string) *store.Pod {
		p := assignedPod(t, ips...)
		p.Network = "n"
		change(p)
		return p
	}
	nothing := func(*store.Pod) {}
	in := func(vpc string) func(*store.Pod) {
		return func(p *store.Pod) { p.Attachments = strings.ReplaceAll(p.Attachments, `"vpc":"v"`, `"vpc":"`+vpc+`"`) }
	}
	for name, tc := range map[string]struct {
		pod  *store.Pod
		rows []any
		want []string
	}{
		"it may have them":                 {pod(nothing, both...), nil, both},
		"another pod has one":              {pod(nothing, both...), []any{operatortest.Address("v", "s1", "10.0.1.9", operatortest.Pod("blue", "a", "q", "n", ""))}, nil},
		"an older pod of its name has one": {pod(nothing, both...), []any{operatortest.Address("v", "s1", "10.0.1.9", &store.Pod{Meta: store.Meta{UID: "older"}, Namespace: "a", Name: "p"})}, nil},
		"the gateway":                      {pod(nothing, "10.0.1.1", "fd00:0:0:1::9"), nil, nil},
		"outside of the VPC":               {pod(nothing, "10.9.1.9", "fd00:0:0:9::9"), nil, nil},
		"many of one family":               {pod(nothing, "10.0.1.9", "10.0.1.10", "fd00:0:0:1::9"), nil, nil},
		"of a VPC that it may not use":     {pod(in("secret"), both...), nil, nil},
		"of another VPC that it may use":   {pod(in("default"), "10.244.0.9"), nil, nil},
		"not what it asks for":             {pod(func(p *store.Pod) { p.NIC = `{"ip": "10.0.1.7"}` }, both...), nil, []string{"10.0.1.7"}},
		"an empty list":                    {pod(func(p *store.Pod) { p.Attachments = "[]" }), nil, nil},
		"an unreadable one":                {pod(func(p *store.Pod) { p.Attachments = "{" }), nil, nil},
		"they are claimed, and not created": {pod(nothing, both...), []any{func() any {
			r := operatortest.Address("v", "s1", "10.0.1.9", assignedPod(t), both[1])
			r.UID = ""
			return r
		}()}, both},
	} {
		t.Run(name, func(t *testing.T) {
			secret := operatortest.VPC("secret", 7, []string{"red"}, "10.0.0.0/16", "fd00::/48")
			net := operatortest.Subnet("secret", "secret", "net1", 0, "10.0.1.0/24", "fd00:0:0:1::/64")
			operatortest.New(t, append(append(world(), secret, net, tc.pod), tc.rows...)...).View(func(tx store.ReadTx) {
				d := decide(tx, tc.pod, primary())
				w := only(t, d)
				if d.verb != assign || w.VPC != "v" || w.Network != "a/n" || !slices.Equal(w.IPs, operatortest.Addrs(tc.want...)) {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
	stranger := assignedPod(t, both...)
	stranger.Tenant, stranger.Namespace = "stranger", "z"
	operatortest.New(t, append(world(), stranger)...).View(func(tx store.ReadTx) {
		if d := decide(tx, stranger, []Source{Primary("none")}); d.verb != refuse {
			t.Errorf("a pod of a tenant that may use no VPC: %+v", d)
		}
	})
}

// TestDecide_ObjectsAndTextDiffer_ObjectsWin: the content of the objects replaces the text, and parts
// that nothing confirms are decided anew.
func TestDecide_ObjectsAndTextDiffer_ObjectsWin(t *testing.T) {
	pod := assignedPod(t, "10.0.1.9", "fd00:0:0:1::9")
	pod.Network = "n"
	elsewhere := operatortest.Address("w", "s1", "10.0.1.9", pod)
	other := operatortest.Address("v", "s1", "10.0.1.7", pod)
	second := operatortest.Address("default", "default", "10.244.0.7", pod)
	second.Attachment = "eth1"
	two := append(primary(), func(store.ReadTx, *store.Pod) ([]Desired, *tenancy.Refusal) {
		return []Desired{{Interface: "eth1", Kind: netif.KindPair, Binding: Binding{VPC: "default"}}}, nil
	})
	for name, tc := range map[string]struct {
		rows    []any
		sources []Source
		want    []string
	}{
		"other addresses of the VPC":           {[]any{other}, primary(), []string{"eth0 v"}},
		"an address of a VPC that it left":     {[]any{elsewhere}, primary(), []string{"eth0 w"}},
		"an interface that the text omits":     {[]any{operatortest.Address("v", "s1", "10.0.1.9", pod, "fd00:0:0:1::9"), second}, two, []string{"eth0 v", "eth1 default"}},
		"an interface that nothing confirms":   {[]any{second}, two, []string{"eth0 v", "eth1 default"}},
		"an interface that it should not have": {[]any{second}, two[1:], []string{"eth1 default"}},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, append(append(world(), pod), tc.rows...)...).View(func(tx store.ReadTx) {
				d := decide(tx, pod, tc.sources)
				var got []string
				for _, w := range d.desired {
					got = append(got, w.Interface+" "+w.VPC)
				}
				if d.verb != restore || !d.rewrite || len(d.surplus) > 0 || !slices.Equal(got, tc.want) {
					t.Errorf("decided %q: %+v", got, d)
				}
			})
		})
	}
}

func TestDecide_NoWish_OnlyConfirmedStays(t *testing.T) {
	pod := assignedPod(t, "10.0.1.9")
	pod.Attachments = strings.TrimSuffix(pod.Attachments, "]") + `,{"name":"eth1","vpc":"secret","addresses":["10.0.1.5/24"]}]`
	pod.Network = "gone"
	operatortest.New(t, append(world(), pod, operatortest.Address("v", "s1", "10.0.1.9", pod))...).View(func(tx store.ReadTx) {
		d := decide(tx, pod, primary())
		if d.verb != restore || d.rewrite || len(d.desired)+len(d.surplus) > 0 || d.refusal.Reason != v1alpha1.NetworkNotFoundReason {
			t.Errorf("decided %+v", d)
		}
	})
}

// TestHeldBack_TextOfPod_OnlyClaimableAddresses: a pod may run with it, and
// the text may be forged.
func TestHeldBack_TextOfPod_OnlyClaimableAddresses(t *testing.T) {
	text := func(vpc string, ips ...string) string {
		p := assignedPod(t, ips...)
		return strings.ReplaceAll(p.Attachments, `"vpc":"v"`, `"vpc":"`+vpc+`"`)
	}
	list := func(texts ...string) string { return strings.ReplaceAll(strings.Join(texts, ","), "],[", ",") }
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a VPC of its tenant":         {text("v", "10.0.1.9", "fd00:0:0:1::9"), []string{"v.10.0.1.9", "v.fd00-0-0-1--9"}},
		"a VPC that is not its own":   {text("secret", "10.0.1.9", "fd00:0:0:1::9"), nil},
		"a VPC that does not exist":   {text("none", "10.0.1.9"), nil},
		"no VPC":                      {text("", "10.0.1.9"), nil},
		"a name that no VPC has":      {text("../pods", "10.0.1.9"), nil},
		"outside of it":               {text("v", "10.9.1.9"), nil},
		"the gateway":                 {text("v", "10.0.1.1"), nil},
		"many of one family":          {text("v", "10.0.1.9", "10.0.1.10", "10.0.1.11"), []string{"v.10.0.1.9"}},
		"many elements":               {list(text("v", "10.0.1.9"), text("v", "10.0.1.10"), text("v", "10.0.1.11")), []string{"v.10.0.1.10", "v.10.0.1.9"}},
		"interfaces that it has not":  {strings.ReplaceAll(text("v", "10.0.1.9"), "eth0", "eth7"), nil},
		"an interface without a name": {strings.ReplaceAll(text("v", "10.0.1.9"), "eth0", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := assignedPod(t)
			pod.Attachments, pod.Network = tc.text, "n"
			secret := operatortest.VPC("secret", 7, []string{"red"}, "10.0.0.0/16", "fd00::/48")
			net := operatortest.Subnet("secret", "secret", "net1", 0, "10.0.1.0/24", "fd00:0:0:1::/64")
			s := operatortest.New(t, append(world(), secret, net, pod)...)
			r := New(Options{Store: s, Sources: primary()})
			for range 2 {
				if err := r.holdUnconfirmed(pod); err != nil {
					t.Fatal(err)
				}
			}
			s.View(func(tx store.ReadTx) {
				var got []string
				for _, row := range store.ListAddresses(tx) {
					if got = append(got, row.Name); !row.IsHeldBack() || !pod.Holds(row) {
						t.Errorf("the row is %+v", row)
					}
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("held back are %q, want %q", got, tc.want)
				}
				if d := decide(tx, pod, primary()); d.verb != assign {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}

// TestHeldBack_OneOfSetLeft_RestKept: an operator that starts finds one Address of two. No
// other holder gets the lost one before it is claimed again.
func TestHeldBack_OneOfSetLeft_RestKept(t *testing.T) {
	pod := assignedPod(t, "10.0.1.9", "fd00:0:0:1::9")
	s := operatortest.New(t, append(world(), pod, operatortest.Address("v", "s1", "10.0.1.9", pod, "fd00:0:0:1::9"))...)
	r := New(Options{Store: s, Sources: primary()})
	if err := r.holdUnconfirmed(pod); err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		row := store.AddressByIP(tx, "v", netip.MustParseAddr("fd00:0:0:1::9"))
		if row == nil || !pod.Holds(row) || row.UID != "" || row.IsHeldBack() {
			t.Errorf("the lost address has the row %+v", row)
		}
		if d := decide(tx, pod, primary()); d.verb != restore || len(d.desired) != 1 || len(d.desired[0].IPs) != 2 {
			t.Errorf("decided %+v", d)
		}
	})
}

func TestDecide_RunningSandbox_AllowedAddressKept(t *testing.T) {
	both := []string{"10.0.1.9", "fd00:0:0:1::9"}
	for _, tc := range []struct {
		name, label, nic string
		running          []string
		rows             []any
		want             []string
	}{
		{name: "in its Network's VPC", label: "n", running: both, want: both},
		{name: "as it asks for", label: "n", nic: `{"ip": "10.0.1.9"}`, running: both, want: both},
		{name: "not what it asks for", label: "n", nic: `{"ip": "10.0.1.7"}`, running: both, want: []string{"10.0.1.7"}},
		{name: "one family alone", label: "n", running: []string{"10.0.1.9"}},
		{name: "outside of the VPC", label: "n", running: []string{"10.9.1.9", "fd00:0:0:9::9"}},
		{name: "the gateway", label: "n", running: []string{"10.0.1.1", "fd00:0:0:1::9"}},
		{
			name: "somebody else's by now", label: "n", running: both,
			rows: []any{operatortest.Address("v", "s1", "10.0.1.9", operatortest.Pod("blue", "a", "q", "", ""))},
		},
		{name: "it did not run", label: "n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := operatortest.Pod("blue", "a", "p", tc.label, tc.nic)
			pod.IPs = operatortest.Addrs(tc.running...)
			operatortest.New(t, append(append(world(), pod), tc.rows...)...).View(func(tx store.ReadTx) {
				d := decide(tx, pod, primary())
				if d.verb != assign || only(t, d).VPC != "v" || !slices.Equal(only(t, d).IPs, operatortest.Addrs(tc.want...)) {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}

func TestDecide_RunningSandboxOfOtherTenant_NothingKept(t *testing.T) {
	pod := operatortest.Pod("stranger", "z", "p", "n", "")
	pod.IPs = operatortest.Addrs("10.0.1.9", "fd00:0:0:1::9")
	operatortest.New(t, append(world(), pod)...).View(func(tx store.ReadTx) {
		if d := decide(tx, pod, primary()); d.verb != refuse {
			t.Errorf("decided %+v", d)
		}
	})
}

func TestDescribe_Addresses_SubnetTold(t *testing.T) {
	subnet := operatortest.Subnet("s1", "v", "net1", 0, "fd00:0:0:1::/64", "10.0.1.0/24")
	pod := operatortest.Pod("blue", "a", "p", "n", "")
	rows := []*store.Address{
		operatortest.Address("v", "s1", "fd00:0:0:1::9", pod, "10.0.1.9"), operatortest.Address("v", "s1", "10.0.1.9", pod, "fd00:0:0:1::9"),
	}
	var got outcome
	var err error
	operatortest.New(t, subnet).View(func(tx store.ReadTx) {
		w := Desired{Interface: "eth0", Kind: netif.KindPair, Network: "a/n", AltName: "net0", Binding: Binding{VPC: "v"}}
		got, err = describe(tx, pod, []Desired{w}, [][]*store.Address{rows})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := annotations.UserInput{VPC: "v", Net: "net1", IP: "10.0.1.9"}
	if diff := cmp.Diff(want, got.userInput); diff != "" {
		t.Errorf("user input (-want +got):\n%s", diff)
	}
	attachment := got.attachments[0]
	if !slices.Equal(attachment.Addresses, operatortest.Prefixes("10.0.1.9/24", "fd00:0:0:1::9/64")) ||
		!slices.Equal(attachment.Gateways, operatortest.Addrs("10.0.1.1", "fd00:0:0:1::1")) {
		t.Errorf("attachment is %+v", attachment)
	}
}
