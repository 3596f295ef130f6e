// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	nodeipamclient "github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// ipamWrite is a write that somebody tries, with the refusal of a ServiceAccount of the tenant that
// is a cluster administrator.
type ipamWrite struct {
	try func(context.Context, client.Client) error
	why string
}

// writes returns the writes that a tenant or the daemon of another node may try on the objects of
// the API.
func (p *poacher) writes(own *corev1.Pod) map[string]ipamWrite {
	const configs, status, shared = "only the Alioth operator writes the configs of pods", "only the Alioth operator writes the status", "may not write PodNetworks and NodeInfos"
	meta := metav1.ObjectMeta{Namespace: own.Namespace, Name: own.Name}
	address, info := p.instance.Status.PodIPAddresses[0], &multitenancyv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: p.node}}
	onto := podNetworkOf(p.victim)
	onto.Name += "-forged"
	reservation := instanceIn(p.Namespace.Name, "", 0)
	patch := func(object client.Object, text string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			copied, _ := object.DeepCopyObject().(client.Object)
			return c.Status().Patch(ctx, copied, client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}
	create := func(object client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			copied, _ := object.DeepCopyObject().(client.Object)
			return c.Create(ctx, copied)
		}
	}
	return map[string]ipamWrite{
		"report an address": {patch(&multitenancyv1alpha1.MultitenantPodNetworkConfig{ObjectMeta: meta},
			`{"status":{"status":"Ready","primaryIP":"`+address+`/32","macAddress":"`+wantedMAC+`"}}`), configs},
		"report an address in the early group": {
			patch(&acnv1alpha1.MultiTenantPodNetworkConfig{ObjectMeta: meta}, `{"status":{"primaryIP":"`+address+`/32"}}`),
			configs,
		},
		"make a config": {
			create(&multitenancyv1alpha1.MultitenantPodNetworkConfig{ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: "forged"}}),
			configs,
		},
		"end a config": {func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, &multitenancyv1alpha1.MultitenantPodNetworkConfig{ObjectMeta: meta})
		}, configs},
		"reserve an address":       {patch(reservation, `{"status":{"status":"Ready","podIPAddresses":["`+address+`"]}}`), status},
		"offer a device":           {patch(info, `{"status":{"deviceInfos":[{"deviceType":"acn.azure.com/vnet-nic","macAddress":"`+privateMAC+`"}]}}`), shared},
		"offer devices of no node": {create(&multitenancyv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: p.node + "-forged"}}), shared},
		"take back what a node offers": {func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, info.DeepCopy())
		}, shared},
		"map a PodNetwork": {create(onto), shared},
	}
}

// changesNoObject has the tenant's user, a ServiceAccount of the tenant with all rights and
// the daemon of another node write objects of the API.
func (p *poacher) changesNoObject(t *testing.T) {
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace.Name, Name: "network"}} // a refused one
	before := p.objectsOf(t, own)
	first, _ := p.Nodes()
	robot, thief := p.mightyAccount(t, p.Namespace.Name), p.Steal(t, first)
	ctx := stage.Within(t, stage.Patience)
	for what, write := range p.writes(own) {
		wantDenied(t, "the user tries to "+what, write.try(ctx, p.editor.Client), "cannot ")
		wantDenied(t, "a ServiceAccount of the tenant tries to "+what, write.try(ctx, robot), write.why)
		if err := write.try(ctx, thief); !apierrors.IsForbidden(err) {
			t.Errorf("the daemon of node %s tries to %s: %v, want Forbidden", first, what, err)
		}
	}
	if now := p.objectsOf(t, own); now != before {
		t.Errorf("the objects are\n%s\nand were\n%s", now, before)
	}
}

// objectsOf returns the text of the objects that somebody may want to change, without the fields
// that the API server adds to each write.
func (p *poacher) objectsOf(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	var all strings.Builder
	key := client.ObjectKeyFromObject(pod)
	for _, one := range []struct {
		key    client.ObjectKey
		object client.Object
	}{
		{key, &multitenancyv1alpha1.MultitenantPodNetworkConfig{}},
		{key, &acnv1alpha1.MultiTenantPodNetworkConfig{}},
		{client.ObjectKey{Name: p.node}, &multitenancyv1alpha1.NodeInfo{}},
		{client.ObjectKey{Namespace: key.Namespace, Name: instanceIn(key.Namespace, "", 0).Name}, &multitenancyv1alpha1.PodNetworkInstance{}},
		{client.ObjectKeyFromObject(p.network), &multitenancyv1alpha1.PodNetwork{}},
	} {
		if err := p.Client.Get(stage.Within(t, stage.Patience), one.key, one.object); err != nil {
			t.Fatal(err)
		}
		one.object.SetManagedFields(nil)
		one.object.SetResourceVersion("")
		if err := json.NewEncoder(&all).Encode(one.object); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// nodeGivesNoOtherDevice has the token of the node's own daemon offer devices that the node's
// configuration does not offer: the device with the node's address, and a private one. The operator
// believes it, the daemon does not.
func (p *poacher) nodeGivesNoOtherDevice(t *testing.T) {
	p.OnNode(t, p.node, "ip", "link", "add", privateDevice, "address", privateMAC, "type", "veth", "peer", "name", privateDevice+"p")
	t.Cleanup(func() { p.OnNode(t, p.node, "ip", "link", "del", privateDevice) })
	thief, nodes := p.Steal(t, p.node), p.macOfNode(t)
	p.offer(t, thief, nodes, privateMAC)
	var pods []*corev1.Pod
	for _, name := range []string{"poacher-0", "poacher-1"} {
		pods = append(pods, p.pod(t, name, scene.WithLabel(multitenancyv1alpha1.PodNetworkLabel, p.own.Name)))
	}
	assigned := map[string]*corev1.Pod{}
	for _, pod := range pods {
		assigned[p.assignedMAC(t, pod)] = pod
	}
	for mac, text := range map[string]string{nodes: "the node needs the device itself", privateMAC: "the node does not offer the device to pods"} {
		if assigned[mac] == nil {
			t.Fatalf("the operator has assigned %v", assigned)
		}
		p.awaitEvent(t, assigned[mac], "FailedCreatePodSandBox", text)
	}
	p.nodeHasItsDevices(t)
	if links := p.OnNode(t, p.node, "ip", "-o", "link", "show", privateDevice); strings.Contains(links, "UP") {
		t.Errorf("the private device is %s", links)
	}
	p.offer(t, thief, wantedMAC)
	if err := p.Delete(stage.Within(t, stage.Patience), pods[0], pods[1]); err != nil {
		t.Fatal(err)
	}
}

// offer has a daemon's token write the NodeInfo of its own node.
func (p *poacher) offer(t *testing.T, daemon client.Client, macs ...string) {
	t.Helper()
	var list []multitenancyv1alpha1.DeviceInfo
	for _, mac := range macs {
		list = append(list, multitenancyv1alpha1.DeviceInfo{DeviceType: multitenancyv1alpha1.DeviceTypeVnetNIC, MacAddress: mac})
	}
	text, err := json.Marshal(map[string]any{"status": map[string]any{"deviceInfos": list}})
	if err != nil {
		t.Fatal(err)
	}
	info := &multitenancyv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: p.node}}
	if err := daemon.Status().Patch(stage.Within(t, stage.Patience), info, client.RawPatch(types.MergePatchType, text)); err != nil {
		t.Fatal(err)
	}
}

// assignedMAC waits until the operator has assigned a device to a pod.
func (p *poacher) assignedMAC(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	config := &multitenancyv1alpha1.MultitenantPodNetworkConfig{}
	err := scene.Until(stage.Within(t, stage.Patience), "a device for "+pod.Name, func(ctx context.Context) (bool, string, error) {
		err := p.Client.Get(ctx, client.ObjectKeyFromObject(pod), config)
		return err == nil && config.Status.MacAddress != "", fmt.Sprintf("%+v, %v", config.Status, err), client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return config.Status.MacAddress
}

// ipamPort is the port of CNS. The lab's chart does not turn it on.
const ipamPort = 10090

// reachesNoListener asks for the API from a tenant's pod, and from a pod on the network of the
// node that also has the folder of the socket, as any user but root.
func (p *poacher) reachesNoListener(t *testing.T, usual *corev1.Pod) {
	host := p.onNodesNetwork(t, p.node, "--echo", "18103")
	at := p.Lab.Nodes()[1]
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, c := range []struct {
		from *corev1.Pod
		ips  []netip.Addr
	}{{usual, append(loopback, at.IPv4, at.IPv6)}, {host, append(loopback, at.IPv4, at.IPv6)}} {
		var targets []string
		for _, ip := range c.ips {
			targets = append(targets, scene.TargetPort("tcp", ip, ipamPort))
		}
		results, err := p.Ask(stage.Within(t, stage.Patience), c.from, 500*time.Millisecond, targets...)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			if result.OK {
				t.Errorf("pod %s is answered by %s", c.from.Name, result.Target)
			}
		}
		p.wantUnreached(t, c.from, nodeipamclient.DefaultSocket, "no such file or directory")
	}
	control, err := p.Ask(stage.Within(t, stage.Patience), host, answerTime, scene.TargetPort("tcp", loopback[0], 18103))
	if err != nil || slices.ContainsFunc(control, func(r report.Probe) bool { return !r.OK }) {
		t.Errorf("a port that is open: %+v, %v", control, err)
	}
	mounted := scene.Pod(host.Namespace, "mounted", p.onNode, withFolder("/run/alioth"), func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](65534)}
	})
	p.Run(t, mounted)
	p.wantUnreached(t, mounted, nodeipamclient.DefaultSocket, "permission denied")
	root := scene.Pod(host.Namespace, "mounted-root", p.onNode, withFolder("/run/alioth"))
	p.Run(t, root)
	for _, socket := range []string{nodeipamclient.DefaultSocket, cniapi.DefaultSocket} {
		p.wantUnreached(t, root, socket, "403")
	}
	p.readsNoMetrics(t, host)
}

// metricsPort is where the chart has daemons serve metrics, on loopback.
const metricsPort = 9472

// readsNoMetrics asks for a daemon's metrics, which name VPCs, from the network of its node.
func (p *poacher) readsNoMetrics(t *testing.T, host *corev1.Pod) {
	t.Helper()
	for scheme, why := range map[string]string{"http": "400", "https": "certificate"} {
		out, err := p.Exec(stage.Within(t, stage.Patience), host, scene.Tool, "get", fmt.Sprintf("%s://127.0.0.1:%d/metrics", scheme, metricsPort))
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(out, "alioth_") {
			t.Errorf("metrics by %s: %.300q, %v, want %q", scheme, out, err, why)
		}
	}
	out, err := p.Exec(stage.Within(t, stage.Patience), host, scene.Tool, "get", "--insecure", fmt.Sprintf("https://127.0.0.1:%d/metrics", metricsPort))
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("metrics without a token: %.300q, %v, want 401", out, err)
	}
}

// withFolder gives a pod a folder of the node at the same place.
func withFolder(path string) scene.PodOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: "folder", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
		})
		container := &pod.Spec.Containers[0]
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "folder", MountPath: path})
	}
}

// wantUnreached requires that a pod does not connect to a socket, for a reason.
func (p *poacher) wantUnreached(t *testing.T, from *corev1.Pod, socket, why string) {
	t.Helper()
	out, err := p.Exec(stage.Within(t, stage.Patience), from, scene.Tool, "get", "--socket", socket, "http://node/network/health")
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("pod %s asks %s: %q, %v, want %q", from.Name, socket, out, err, why)
	}
}
