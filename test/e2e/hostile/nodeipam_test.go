// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	nodeipamclient "github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

const (
	// wantedMAC is the MAC of the only device that the node offers to pods.
	wantedMAC = "00:0d:3a:00:00:66"
	// privateDevice is a device that its configuration does not offer, with privateMAC.
	privateDevice, privateMAC = "private0", "00:0d:3a:00:00:67"
)

// poacher is a tenant's user on a node where another CNI plugin attaches the pods. The
// victim has addresses reserved, and no pod yet: the device is free.
type poacher struct {
	*forger
	// network and instance are the victim's, own is the PodNetwork of the tenant itself.
	network, own *multitenancyv1alpha1.PodNetwork
	instance     *multitenancyv1alpha1.PodNetworkInstance
}

func (e *env) poacher(t *testing.T) *poacher {
	t.Helper()
	_, node := e.Nodes()
	e.UseOtherPlugin(t, node)
	e.OfferDevice(t, node, wantedMAC)
	p := &poacher{forger: &forger{env: e, node: node, victim: e.Tenant(t, stage.Overlapping("victim")), Tenant: e.Tenant(t, stage.Overlapping("poacher"))}}
	p.network, p.own = podNetworkOf(p.victim), podNetworkOf(p.Tenant)
	p.instance = instanceIn(p.victim.Namespace.Name, p.network.Name, 2)
	e.Make(t, p.network, p.own, p.instance)
	p.editor = p.instanceEditor(t)
	p.awaitInstance(t, p.instance, multitenancyv1alpha1.InstanceReady)
	return p
}

// podNetworkOf maps to the first subnet of a tenant's VPC.
func podNetworkOf(tenant *scene.Tenant) *multitenancyv1alpha1.PodNetwork {
	network := &multitenancyv1alpha1.PodNetwork{ObjectMeta: metav1.ObjectMeta{Name: tenant.VPC.Name + "-pn"}}
	network.Spec.NetworkID, network.Spec.SubnetResourceID = tenant.VPC.Name, "/subnets/net1"
	return network
}

func instanceIn(namespace, network string, size int32) *multitenancyv1alpha1.PodNetworkInstance {
	one := &multitenancyv1alpha1.PodNetworkInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pni-of-" + namespace}}
	one.Spec.PodNetworkConfigs = []multitenancyv1alpha1.PodNetworkConfig{{PodNetwork: network, PodIPReservationSize: size}}
	return one
}

// instanceEditor returns the tenant's user with the most rights that its namespace can give.
func (p *poacher) instanceEditor(t *testing.T) *scene.Scene {
	t.Helper()
	namespace := p.Namespace.Name
	editor := p.PersonWith(t, namespace, "edit")
	p.Bind(t, namespace, stage.NameWith(namespace, "edit"), "alioth-pod-network-editor")
	err := scene.Until(stage.Within(t, stage.Patience), "the rights of an editor of instances", func(ctx context.Context) (bool, string, error) {
		err := editor.Client.Create(ctx, instanceIn(namespace, p.own.Name, 0), client.DryRunAll)
		return !apierrors.IsForbidden(err), fmt.Sprint(err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return editor
}

// awaitInstance waits for the status of an instance.
func (p *poacher) awaitInstance(t *testing.T, one *multitenancyv1alpha1.PodNetworkInstance, want multitenancyv1alpha1.InstanceState) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), "the status of "+one.Name, func(ctx context.Context) (bool, string, error) {
		err := p.Client.Get(ctx, client.ObjectKeyFromObject(one), one)
		return err == nil && one.Status.Status == want, fmt.Sprintf("%+v", one.Status), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// onNode puts a pod on the node without the scheduler.
func (p *poacher) onNode(pod *corev1.Pod) { pod.Spec.NodeName = p.node }

// pod has the tenant's user create a pod that asks for no Network of Alioth.
func (p *poacher) pod(t *testing.T, name string, options ...scene.PodOption) *corev1.Pod {
	t.Helper()
	pod := scene.Pod(p.Namespace.Name, name, append(options, p.onNode)...)
	p.create(t, pod)
	return pod
}

// TestNodeIPAM_HostileTenant_GetsNothing is not parallel: the node's label concerns the pods of all
// other tests there.
func TestNodeIPAM_HostileTenant_GetsNothing(t *testing.T) {
	e := start(t)
	p := e.poacher(t)
	forged := p.claimsToBeDecided(t)
	t.Run("labels", p.labelsGiveNothing)
	t.Run("annotations", func(t *testing.T) { p.annotationsGiveNothing(t, forged) })
	t.Run("devices that a stolen token offers", p.nodeGivesNoOtherDevice)
	t.Run("objects", p.changesNoObject)
	t.Run("the listener", func(t *testing.T) { p.reachesNoListener(t, forged["device"]) })
	t.Run("the victim", p.victimHasAll)
}

// labelsGiveNothing names the victim's objects in each label.
func (p *poacher) labelsGiveNothing(t *testing.T) {
	own := instanceIn(p.Namespace.Name, p.network.Name, 1)
	own.Spec.PodNetworkConfigs[0].IPConstraint = p.instance.Status.PodIPAddresses[0]
	if err := p.editor.Create(stage.Within(t, stage.Patience), own); err != nil {
		t.Fatal(err)
	}
	const network, instance = multitenancyv1alpha1.PodNetworkLabel, multitenancyv1alpha1.PodNetworkInstanceLabel
	refused := map[string]*corev1.Pod{}
	cases := map[string]struct{ label, value, reason, text string }{
		"network": {network, p.network.Name, v1alpha1.TenantNotAllowedReason, fmt.Sprintf("does not allow tenant %q", p.Name)},
		"vpc":     {network, p.victim.VPC.Name, v1alpha1.PodNetworkNotReadyReason, "there is no PodNetwork"},
		"foreign": {
			instance,
			p.instance.Name,
			v1alpha1.PodNetworkInstanceNotFoundReason,
			fmt.Sprintf("no PodNetworkInstance %q in namespace %q", p.instance.Name, p.Namespace.Name),
		},
		"instance": {instance, own.Name, v1alpha1.PodNetworkInstanceNotReadyReason, "is not Ready"},
	}
	for name, c := range cases {
		refused[name] = p.pod(t, name, scene.WithLabel(c.label, c.value), p.forged(p.deviceOfVictim(t, wantedMAC)))
	}
	for name, c := range cases {
		p.awaitRefusal(t, refused[name], c.reason, c.text)
		p.awaitEvent(t, refused[name], c.reason, c.text)
		p.reportsNothing(t, refused[name])
	}
	p.awaitInstance(t, own, multitenancyv1alpha1.InstanceReservationError)
	if len(own.Status.PodIPAddresses) > 0 || len(own.Status.Reservations) > 0 {
		t.Errorf("an instance in a VPC of others has reserved %+v", own.Status)
	}
}

// reportsNothing requires that the config of a refused pod has no address and no device.
func (p *poacher) reportsNothing(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	config := &multitenancyv1alpha1.MultitenantPodNetworkConfig{}
	err := scene.Until(stage.Within(t, stage.Patience), "the config of "+pod.Name, func(ctx context.Context) (bool, string, error) {
		err := p.Client.Get(ctx, client.ObjectKeyFromObject(pod), config)
		reported := config.Status.Status != "" && config.Status.Status != multitenancyv1alpha1.ConfigPending
		return err == nil && reported, fmt.Sprintf("%+v, %v", config.Status, err), client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Error(err)
	}
	if s := config.Status; s.Status == multitenancyv1alpha1.ConfigReady || s.PrimaryIP != "" || s.MacAddress != "" || len(s.InterfaceInfos) > 0 {
		t.Errorf("the config of a refused pod reports %+v", s)
	}
}

// deviceOfVictim returns a text of the operator's annotation with a device of the node, and an
// address that is reserved for the victim.
func (p *poacher) deviceOfVictim(t *testing.T, mac string) string {
	t.Helper()
	first := netif.Interface{
		Name: "eth0", Kind: netif.KindExternal, VPC: v1alpha1.DefaultVPCName, Subnet: v1alpha1.DefaultVPCName, MAC: "02:00:00:00:00:68",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.68/24")}, Gateways: []netip.Addr{netip.MustParseAddr("10.10.1.1")},
	}
	second := first
	second.Name, second.VPC, second.Subnet, second.MAC = "eth1", p.victim.VPC.Name, p.victim.Subnets[0].Name, mac
	second.Addresses = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(p.instance.Status.PodIPAddresses[0]), 24)}
	text, err := annotations.FormatAttachments([]netif.Interface{first, second})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claimsToBeDecided has pods without a label of the API say that they have a device of the node,
// the device with the node's own address, and an address in the network of other plugins' pods.
func (p *poacher) claimsToBeDecided(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	return map[string]*corev1.Pod{
		"device": p.pod(t, "device", p.forged(p.deviceOfVictim(t, wantedMAC))),
		"nodes":  p.pod(t, "nodes", p.forged(p.deviceOfVictim(t, p.macOfNode(t)))),
	}
}

// macOfNode returns the MAC of the device with the node's own address.
func (p *poacher) macOfNode(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(p.OnNode(t, p.node, "ip", "-o", "link", "show", nodeDevice), "link/ether ")
	mac, _, found := strings.Cut(after, " ")
	if !found {
		t.Fatalf("device %s has no Ethernet address: %q", nodeDevice, after)
	}
	return mac
}

// annotationsGiveNothing requires that pods with forged annotations are served like others.
func (p *poacher) annotationsGiveNothing(t *testing.T, forged map[string]*corev1.Pod) {
	for _, pod := range forged {
		if err := p.WaitReady(stage.Within(t, stage.Patience), pod); err != nil {
			t.Fatal(err)
		}
		records := p.recordsOf(t, pod)
		if len(records) != 1 || !records[0].External || records[0].VPC != v1alpha1.DefaultVPCName {
			t.Errorf("pod %s is attached by %+v", pod.Name, records)
			continue
		}
		held, err := p.Held(stage.Within(t, stage.Patience), pod.UID)
		if err != nil || len(held) == 0 || slices.ContainsFunc(scene.IPs(pod), func(ip netip.Addr) bool { return !slices.Contains(held, ip) }) {
			t.Errorf("pod %s has %v and holds %v: %v", pod.Name, scene.IPs(pod), held, err)
		}
		list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
		if err != nil || len(list) != 1 || list[0].VPC != v1alpha1.DefaultVPCName {
			t.Errorf("the attachments of pod %s are %+v: %v", pod.Name, list, err)
		}
		if links := p.InNetNS(t, pod, "ip", "-o", "link", "show"); strings.Contains(links, wantedMAC) || strings.Contains(links, "eth1") {
			t.Errorf("pod %s has %s", pod.Name, links)
		}
		p.answersNoOther(t, pod, records[0].ContainerID)
	}
	p.nodeHasItsDevices(t)
}

// answersNoOther asks the daemon for a pod's container, without and with a wish for the
// victim's address.
func (p *poacher) answersNoOther(t *testing.T, pod *corev1.Pod, container string) {
	t.Helper()
	api, ask := p.NodeIPAM(t, p.node), stage.IPConfigsRequest(t, container, pod.Namespace, pod.Name)
	entries, err := api.Request(stage.Within(t, stage.Patience), ask)
	if err != nil || slices.ContainsFunc(entries, func(one wire.PodIPInfo) bool { return one.NICType != wire.InfraNIC }) {
		t.Errorf("pod %s is answered %+v, %v", pod.Name, entries, err)
	}
	ask.DesiredIPAddresses = p.instance.Status.PodIPAddresses[:1]
	var refused *nodeipamclient.Error
	if _, err := api.Request(stage.Within(t, stage.Patience), ask); !errors.As(err, &refused) || refused.Code != wire.AddressUnavailable {
		t.Errorf("asked for the victim's address, the node answers %v", err)
	}
}

// nodeHasItsDevices requires that no pod has got a device of the node.
func (p *poacher) nodeHasItsDevices(t *testing.T) {
	t.Helper()
	links := p.OnNode(t, p.node, "ip", "-o", "link", "show")
	for _, mac := range []string{wantedMAC, p.macOfNode(t)} {
		if !strings.Contains(links, mac) {
			t.Errorf("the node has lost the device %s: %s", mac, links)
		}
	}
}

// victimHasAll requires that the victim's pod still gets the device and a reserved address.
func (p *poacher) victimHasAll(t *testing.T) {
	reserved := p.instance.Status.PodIPAddresses
	p.awaitInstance(t, p.instance, multitenancyv1alpha1.InstanceReady)
	if !slices.Equal(p.instance.Status.PodIPAddresses, reserved) {
		t.Errorf("the victim's instance has reserved %v, and %v before", p.instance.Status.PodIPAddresses, reserved)
	}
	pod := scene.Pod(p.victim.Namespace.Name, "v2", p.onNode, scene.WithLabel(multitenancyv1alpha1.PodNetworkInstanceLabel, p.instance.Name))
	p.Run(t, pod)
	held, err := p.Held(stage.Within(t, stage.Patience), pod.UID)
	if err != nil || !slices.ContainsFunc(held, func(ip netip.Addr) bool { return slices.Contains(reserved, ip.String()) }) {
		t.Errorf("the victim's pod holds %v, %v, reserved are %v", held, err, reserved)
	}
	if link := p.InNetNS(t, pod, "ip", "-o", "link", "show", "eth1"); !strings.Contains(link, wantedMAC) {
		t.Errorf("eth1 of the victim's pod is %q", link)
	}
	if err := p.Delete(stage.Within(t, stage.Patience), pod); err != nil { // before its instance
		t.Fatal(err)
	}
}
