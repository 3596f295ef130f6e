// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	nodeipamclient "github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// run starts a pod, and returns it Ready.
func (e *env) run(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	e.Make(t, pod)
	if err := e.WaitReady(stage.Within(t, stage.Patience), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func ipsOf(entries []wire.PodIPInfo, of wire.NICType) (ips []string) {
	for _, entry := range entries {
		if entry.NICType == of {
			ips = append(ips, entry.PodIPConfig.IPAddress)
			if second := entry.NetworkContainerIPv6Config; second != nil {
				ips = append(ips, second.IPSubnet.IPAddress)
			}
		}
	}
	slices.Sort(ips)
	return ips
}

func texts(ips []netip.Addr) (list []string) {
	for _, ip := range ips {
		list = append(list, ip.String())
	}
	slices.Sort(list)
	return list
}

// A pod of another plugin has addresses of the infrastructure subnet, which each of its containers
// gets, and which peers in that VPC do not reach by the datapath.
func TestOtherPluginPod_NodeIPAM_GetsAliothAddresses(t *testing.T) {
	e := start(t)
	namespace := e.PlainNamespace(t)
	pod := e.run(t, scene.Pod(namespace, "infra", scene.OnNode(e.node)))
	held, err := e.Held(stage.Within(t, stage.Patience), pod.UID)
	if err != nil || len(held) == 0 || !slices.Equal(texts(held), texts(scene.IPs(pod))) {
		t.Fatalf("the pod has %v and holds %v, %v", scene.IPs(pod), held, err)
	}
	api, ctx := e.api(t), stage.Within(t, stage.Patience)
	container := e.container(t, pod)
	for _, id := range []string{container, "another-sandbox"} {
		entries, err := api.Request(ctx, stage.IPConfigsRequest(t, id, namespace, pod.Name))
		if err != nil || !slices.Equal(ipsOf(entries, wire.InfraNIC), texts(held)) {
			t.Errorf("container %s gets %+v, %v, want %v", id, entries, err, held)
		}
	}
	if err := api.Release(ctx, stage.IPConfigsRequest(t, "another-sandbox", namespace, pod.Name)); err != nil {
		t.Error(err)
	}
	if now, err := e.Held(ctx, pod.UID); err != nil || !slices.Equal(now, held) {
		t.Errorf("after the release of a former sandbox the pod holds %v, %v", now, err)
	}
	var refused *nodeipamclient.Error
	if _, err := api.Request(ctx, stage.IPConfigsRequest(t, "c", namespace, "nobody")); !errors.As(err, &refused) || !refused.Passes() ||
		!strings.HasPrefix(err.Error(), wire.NotReadyPrefix) {
		t.Errorf("for an unknown pod: %v, want one that passes", err)
	}
	e.expectHeldOutside(t, namespace, held)
	e.expectReleased(t, pod)
}

// expectHeldOutside sends from a pod of the default VPC.
func (e *env) expectHeldOutside(t *testing.T, namespace string, ips []netip.Addr) {
	t.Helper()
	peer := e.run(t, scene.Pod(namespace, "peer", scene.OnNode(e.other)))
	before := e.Drops(t, e.other, v1alpha1.DefaultVPCName)["held_outside"]
	results, err := e.Ask(stage.Within(t, stage.Patience), peer, time.Second, scene.Targets([]string{"icmp"}, ips...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.OK {
			t.Errorf("%s answers", result.Target)
		}
	}
	e.waits(t, "the packets to be counted as held_outside", func(context.Context) (bool, string, error) {
		now := e.Drops(t, e.other, v1alpha1.DefaultVPCName)["held_outside"]
		return now >= before+float64(len(ips)), fmt.Sprintf("%v more", now-before), nil
	})
}

// expectReleased deletes a pod, and waits until it holds nothing.
func (e *env) expectReleased(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := e.Delete(stage.Within(t, stage.Patience), pod); err != nil {
		t.Fatal(err)
	}
	e.waits(t, "the pod's addresses to be released", func(ctx context.Context) (bool, string, error) {
		held, err := e.Held(ctx, pod.UID)
		return len(held) == 0, fmt.Sprint(held), err
	})
}

// A daemon that is killed while the pods of its node end applies their releases later.
func TestRelease_DaemonKilled_AppliedLater(t *testing.T) {
	e := start(t)
	namespace := e.PlainNamespace(t)
	pod := e.run(t, scene.Pod(namespace, "infra", scene.OnNode(e.node)))
	if err := e.Lab.KillDaemon(stage.Within(t, stage.Patience), e.node); err != nil {
		t.Fatal(err)
	}
	e.expectReleased(t, pod)
}

// podNetwork maps to a subnet of a tenant's VPC.
func podNetwork(name, vpc string) *multitenancyv1alpha1.PodNetwork {
	network := &multitenancyv1alpha1.PodNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.NetworkID, network.Spec.SubnetResourceID = vpc, "/vpcs/"+vpc+"/subnets/net1"
	return network
}

// instance reserves two addresses of a PodNetwork.
func instance(namespace, network string) *multitenancyv1alpha1.PodNetworkInstance {
	one := &multitenancyv1alpha1.PodNetworkInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pni"}}
	one.Spec.PodNetworkConfigs = []multitenancyv1alpha1.PodNetworkConfig{{PodNetwork: network, PodIPReservationSize: 2}}
	return one
}

const deviceMAC = "00:0d:3a:00:00:01"

// A multitenant pod waits for its instance, and gets a device with a reserved address. A pod that
// Alioth attaches in the same subnet gets another address.
func TestMultitenantPod_InstanceReady_ReservedAddressAndDevice(t *testing.T) {
	e := start(t)
	e.OfferDevice(t, e.node, deviceMAC)
	tenant := e.Tenant(t, stage.Overlapping("ipam"))
	namespace := tenant.Namespace.Name
	labelled := func() *corev1.Pod {
		return stage.RequestDevice(scene.Pod(namespace, "v2", scene.OnNode(e.node), scene.WithLabel(multitenancyv1alpha1.PodNetworkInstanceLabel, "pni")))
	}
	pod := labelled()
	e.Make(t, pod)
	e.ExpectRefused(t, pod, v1alpha1.PodNetworkInstanceNotFoundReason, `there is no PodNetworkInstance "pni"`)
	network := podNetwork(tenant.VPC.Name+"-pn", tenant.VPC.Name)
	one := instance(namespace, network.Name)
	e.Make(t, network, one)
	e.RemoveAfter(t, pod) // before its instance
	if err := e.WaitReady(stage.Within(t, stage.Patience), pod); err != nil {
		t.Fatal(err)
	}
	reserved := e.expectConfig(t, pod, one)
	e.expectDevice(t, pod)
	own := e.run(t, tenant.Pod("own", scene.OnNode(e.other), scene.WithNIC(`{"subnet":"net1"}`)))
	if ip := scene.IP(own, false).String(); slices.Contains(reserved, ip) {
		t.Errorf("a pod of Alioth's own plugin has %s, which the instance has reserved", ip)
	}
	e.expectReleased(t, pod)
	successor := e.run(t, labelled())
	e.expectConfig(t, successor, one)
	e.expectReleased(t, successor)
	for _, object := range []client.Object{one, network} {
		if err := e.Delete(stage.Within(t, stage.Patience), object); err != nil {
			t.Fatal(err)
		}
	}
}

// expectDevice requires that a pod has the device, and its default routes by it alone.
func (e *env) expectDevice(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if link := e.InNetNS(t, pod, "ip", "-o", "link", "show", "eth1"); !strings.Contains(link, deviceMAC) || !strings.Contains(link, ",UP") {
		t.Errorf("eth1 of the pod is %q", link)
	}
	for _, family := range []string{"-4", "-6"} {
		routes := strings.Split(strings.TrimSpace(e.InNetNS(t, pod, "ip", family, "route", "show", "default")), "\n")
		if len(routes) != 1 || !strings.Contains(routes[0], "dev eth1") {
			t.Errorf("the default routes of the pod are %q", routes)
		}
	}
	if links := e.OnNode(t, e.node, "ip", "-o", "link", "show"); strings.Contains(links, deviceMAC) {
		t.Errorf("the node still has the device: %q", links)
	}
}

// expectConfig requires that the pod's config reports the same as the answer of the service, and
// returns the addresses that the instance has reserved.
func (e *env) expectConfig(t *testing.T, pod *corev1.Pod, of *multitenancyv1alpha1.PodNetworkInstance) []string {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(of), of); err != nil {
		t.Fatal(err)
	}
	config, seed := &multitenancyv1alpha1.MultitenantPodNetworkConfig{}, &acnv1alpha1.MultiTenantPodNetworkConfig{}
	e.waits(t, "the config to be Ready for the pod", func(ctx context.Context) (bool, string, error) {
		err := errors.Join(e.Client.Get(ctx, client.ObjectKeyFromObject(pod), config), e.Client.Get(ctx, client.ObjectKeyFromObject(pod), seed))
		ready := config.Spec.PodUID == string(pod.UID) && config.Status.Status == multitenancyv1alpha1.ConfigReady && seed.Status.PrimaryIP != ""
		return err == nil && ready, fmt.Sprintf("%+v, %v", config.Status, err), nil
	})
	entries, err := e.api(t).Request(ctx, stage.IPConfigsRequest(t, e.container(t, pod), pod.Namespace, pod.Name))
	if err != nil {
		t.Fatal(err)
	}
	devices := ipsOf(entries, wire.FrontendNIC)
	reports := len(config.Status.InterfaceInfos) == 1 && config.Status.InterfaceInfos[0].MacAddress == deviceMAC
	if len(devices) != 2 || !reports || config.Status.InterfaceInfos[0].PrimaryIP != devices[0]+"/32" || seed.Status.PrimaryIP != devices[0]+"/32" {
		t.Errorf("the service answers %+v, and the configs report %+v and %+v", entries, config.Status, seed.Status)
	}
	if !slices.Contains(of.Status.PodIPAddresses, devices[0]) || len(of.Status.PodIPAddresses) != 2 {
		t.Errorf("the pod has %v, and its instance has reserved %v", devices, of.Status.PodIPAddresses)
	}
	return of.Status.PodIPAddresses
}
