// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// silence is how many seconds an answer may take that must not come.
const silence = "2"

// Three networks of type ipvlan are on one adapter: one on the adapter itself, which a pod of the
// other node is on too, and two on VLANs with the same range of addresses. The other node has no
// VLANs, and the networks say so.
func TestIPvlanPods_SegmentAndVLANs_OnlyOwnReached(t *testing.T) {
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("ipvlan"))
	bare := danmv1.NetworkOptions{HostDevice: device, CIDR: "10.115.5.0/24", Net6: "fd10:115:5::/64"}
	e.network(t, tenant, "bare", "ipvlan", bare)
	e.network(t, tenant, "wire", "macvlan", bare) // a node has ipvlan or macvlan on a device
	var tagged []*danmv1.DanmNet
	for i, name := range []string{"red", "blue"} {
		guide := ipvlanOfGuide(t)
		guide.HostDevice, guide.VLAN = device, guide.VLAN+int32(i)
		tagged = append(tagged, e.network(t, tenant, name, "ipvlan", guide))
	}
	e.awaitVLANs(t, "blue.311", "red.310")
	for _, network := range tagged {
		e.AwaitLinkCondition(t, network, false, "8021q")
		e.AwaitLinkCondition(t, network, false, e.usual())
	}
	attached := func(name, node, in string, ip int, others ...string) *corev1.Pod {
		first := fmt.Sprintf(`{"network":%q,"ip":"10.115.5.%d","ip6":"fd10:115:5::%d"}`, in, ip, ip)
		return tenant.Pod(name, scene.OnNode(node), interfaces(tenant, append([]string{first}, others...)...))
	}
	vlan := func(name string, ip int) string {
		return fmt.Sprintf(`{"network":%q,"ip":"10.130.1.%d","ip6":"fd10:130:1::%d"}`, name, ip, ip)
	}
	one, two := attached("one", e.guest(), "bare", 10, vlan("red", 10)), attached("two", e.guest(), "bare", 11, vlan("red", 11))
	serves("red")(two)
	other, elsewhere := attached("other", e.guest(), "bare", 12, vlan("blue", 12)), attached("elsewhere", e.usual(), "wire", 20)
	e.RunFor(t, one, two, other, elsewhere)

	for _, v6 := range []bool{false, true} {
		e.ping(t, one, e.OnDevice(t, two, "bare1", v6))
		e.ping(t, one, e.OnDevice(t, two, "red2", v6))
		e.ping(t, one, e.OnDevice(t, elsewhere, "wire1", v6))
		e.silent(t, one, e.OnDevice(t, other, "blue2", v6))
	}
	e.expectClusterIP(t, "red", one, "red2", two)
	for _, want := range []struct{ device, is string }{{"bare1", "ipvlan  mode l2"}, {"red2", "ipvlan  mode l2"}} {
		if link := e.InNetNS(t, one, "ip", "-d", "link", "show", "dev", want.device); !strings.Contains(link, want.is) {
			t.Errorf("%s is %s, want %s", want.device, link, want.is)
		}
	}
	if err := e.Delete(stage.Within(t, stage.Patience), one, two, other, elsewhere); err != nil {
		t.Fatal(err)
	}
	for _, network := range tagged {
		if err := e.DeleteNetwork(stage.Within(t, stage.Patience), network); err != nil {
			t.Fatal(err)
		}
	}
	e.awaitVLANs(t)
}

// ipvlanOfGuide returns the options of the network of type ipvlan that the users' guide has.
func ipvlanOfGuide(t *testing.T) danmv1.NetworkOptions {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "tenants", "multi-network.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var network danmv1.DanmNet
		if yaml.Unmarshal([]byte(block), &network) == nil && network.Spec.NetworkType == "ipvlan" && network.Spec.Options.VLAN != 0 {
			return network.Spec.Options
		}
	}
	t.Fatal("docs/tenants/multi-network.md has no network of type ipvlan with a VLAN")
	return danmv1.NetworkOptions{}
}

// A definition with a VLAN has no effect without a grant. With one, its plugin is on a link of the
// node.
func TestVLANDefinition_GrantedPlugin_OwnLink(t *testing.T) {
	e := start(t)
	e.installPlugins(t, "ipvlan", "host-local")
	namespace, name := e.PlainNamespace(t), stage.Unique("tagged")
	e.Make(t, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: fmt.Sprintf(
			`{"cniVersion":"1.0.0","type":"ipvlan","master":%q,"vlan":320,"ipam":{"type":"host-local","subnet":"10.115.7.0/24"}}`, device)},
	})
	one := scene.Pod(namespace, "one", scene.OnNode(e.guest()), scene.WithSelections(name))
	two := scene.Pod(namespace, "two", scene.OnNode(e.guest()), scene.WithSelections(name))
	e.Make(t, one, two)
	e.ExpectRefused(t, one, v1alpha1.DelegationNotGrantedReason, name)
	e.awaitVLANs(t)

	e.Make(t, &v1alpha1.DelegationGrant{
		ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("grant")},
		Spec:       v1alpha1.DelegationGrantSpec{Namespaces: []string{namespace}, Plugins: []string{"ipvlan"}, IPAM: []string{"host-local"}},
	})
	if err := e.WaitReady(stage.Within(t, stage.Patience), one, two); err != nil {
		t.Fatal(err)
	}
	links := e.vlans(t)
	if len(links) != 1 || !strings.HasSuffix(links[0], ".320") {
		t.Errorf("the machine has the VLANs %v", links)
	}
	status := e.AwaitStatus(t, two, 2)[1]
	if len(status.IPs) != 1 || !strings.HasPrefix(status.IPs[0], "10.115.7.") {
		t.Fatalf("the status is %+v", status)
	}
	e.ping(t, one, netip.MustParseAddr(status.IPs[0]))
	if err := e.Delete(stage.Within(t, stage.Patience), one, two); err != nil {
		t.Fatal(err)
	}
}

// silent requires that an address does not answer a pod.
func (e *env) silent(t *testing.T, from *corev1.Pod, to netip.Addr) {
	t.Helper()
	if out, err := e.Exec(stage.Within(t, stage.Patience), from, "ping", "-c", "1", "-W", silence, to.String()); err == nil {
		t.Errorf("%s answers %s: %s", to, from.Name, out)
	}
}

// vlans lists the VLAN links of the virtual machine, sorted.
func (e *env) vlans(t *testing.T) (names []string) {
	t.Helper()
	for _, link := range devicesOf(t, e.OnNode(t, e.guest(), "ip", "-j", "link", "show", "type", "vlan")) {
		names = append(names, link.IfName)
	}
	slices.Sort(names)
	return names
}

// awaitVLANs waits until the virtual machine has exactly these VLAN links.
func (e *env) awaitVLANs(t *testing.T, want ...string) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), fmt.Sprintf("the VLANs %v", want), func(context.Context) (bool, string, error) {
		have := e.vlans(t)
		return slices.Equal(have, want), fmt.Sprint(have), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
