// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/wire"
)

// trustedLooking begins as the names of pods' devices on the nodes do.
const trustedLooking = "alvred"

// TestHostLink_NameOfAliothDevice_Refused has the admin of a namespace, and then an administrator,
// name a host link as a device of Alioth. The test is not parallel, and neither is the next:
// `aliothctl verify` reports devices with such names.
func TestHostLink_NameOfAliothDevice_Refused(t *testing.T) {
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("namer"))
	user := e.PersonWith(t, tenant.Namespace.Name, "edit")
	meta := metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "named"}
	spec := danmv1.NetworkSpec{NetworkID: trustedLooking, NetworkType: "macvlan", Options: danmv1.NetworkOptions{CIDR: "10.109.0.0/24"}}
	tagged := spec
	tagged.Options.HostDevice, tagged.Options.VLAN = nodeDevice, 1310
	for _, c := range []struct {
		who    *scene.Scene
		object client.Object
	}{
		{user, &danmv1.TenantNetwork{ObjectMeta: meta, Spec: spec}},
		{user, &danmiov1.TenantNetwork{ObjectMeta: meta, Spec: spec}},
		{e.Scene, &danmv1.DanmNet{ObjectMeta: meta, Spec: tagged}},
		{e.Scene, &danmv1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("named")}, Spec: tagged}},
	} {
		err := c.who.Client.Create(stage.Within(t, stage.Patience), c.object)
		wantDenied(t, fmt.Sprintf("%T", c.object), err, "NetworkID must not begin with alv or alioth")
	}
}

// TestDevice_TrustedName_ForgesNoShadow has a device of a node with the name of a host link that
// looks like a pod's device, as if each check of names had failed. A host outside sends packets to
// it that have the shadow of a tenant's pod as their source.
func TestDevice_TrustedName_ForgesNoShadow(t *testing.T) {
	e := start(t)
	_, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("shadowed"))
	e.Run(t, tenant.Pod("victim", scene.OnNode(second)))
	const device = trustedLooking + ".1310"
	mac := net.HardwareAddr{2, 0, 0, 0, 0x13, 0x10}
	e.OnNode(t, second, "ip", "link", "add", "link", nodeDevice, "name", device, "address", mac.String(), "type", "macvlan", "mode", "bridge")
	t.Cleanup(func() { e.OnNode(t, second, "ip", "link", "del", device) })
	e.OnNode(t, second, "ip", "link", "set", device, "up")
	host, _ := e.outsider(t, 214)
	for _, shadow := range e.shadowsOn(t, second) {
		target := netip.AddrPortFrom(nodeShadows[0], 9)
		if shadow.Is6() {
			target = netip.AddrPortFrom(nodeShadows[1], 9)
		}
		frame := wire.Frame{
			SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0x13, 0x11}, TargetMAC: mac,
			Source: netip.AddrPortFrom(shadow, report.PortEcho), Target: target, Payload: []byte("forged"),
		}
		bytes, err := frame.Encode()
		if err != nil {
			t.Fatal(err)
		}
		before := e.Counters(t, second, stage.FilterMetric)
		e.background(t, host, "raw", "bytes", hex.EncodeToString(bytes))()
		err = scene.Until(stage.Within(t, answerTime), "foreign_shadow to be counted", func(context.Context) (bool, string, error) {
			now := e.Counters(t, second, stage.FilterMetric)
			return now["foreign_shadow"] > before["foreign_shadow"], fmt.Sprintf("%v, before %v", now, before), nil
		})
		if err != nil {
			t.Errorf("a packet from the shadow %s by the device %s: %v", shadow, device, err)
		}
	}
}
