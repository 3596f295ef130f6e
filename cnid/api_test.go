// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

// server is the API server that the tests of this package share.
var server apiserver.Shared

// apiNode is a machine with the real daemon, which has the rights that the chart
// gives it and no others, and the test in the operator's place.
type apiNode struct {
	*machine
	api  client.Client
	link *apiLink
	lab  *lab
	name string
}

func newAPINode(t *testing.T, name string) *apiNode {
	t.Helper()
	config := server.Config(t)
	n := &apiNode{machine: newMachine(t, name), name: name}
	testnet.Veth(t, n.NetNS, "eth0", []string{"192.0.2.1/24"}, testnet.New(t), "eth0", nil)
	n.link = newAPILink(t, n.machine, config)
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	n.api = c
	n.lab = &lab{shim: buildShim(t)}
	n.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	n.status(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(obj client.Object) {
		node := obj.(*corev1.Node)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	})
	config.BearerToken = n.token(t, config)
	n.cfg.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, n.cfg.Kubeconfig, config, n.link.address())
	return n
}

// create creates an object, and deletes it with the test.
func (n *apiNode) create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := n.api.Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
	t.Cleanup(func() {
		err := n.api.Delete(context.Background(), obj, client.GracePeriodSeconds(0))
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete %T %s: %v", obj, obj.GetName(), err)
		}
	})
}

// status changes the status of an object, metadata included where the API
// takes it.
func (n *apiNode) status(t *testing.T, obj client.Object, change func(client.Object)) {
	t.Helper()
	if err := n.api.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	if err := n.api.Status().Patch(t.Context(), obj, client.MergeFrom(before)); err != nil {
		t.Fatalf("patch status of %T %s: %v", obj, obj.GetName(), err)
	}
}

// vpc makes a VPC that is ready, with one subnet.
func (n *apiNode) vpc(t *testing.T, name string, vni int32) {
	t.Helper()
	n.vpcOf(t, name, vni, "10.10.1.0/24")
}

// vpcOf makes a VPC that is ready, with one subnet of this range.
func (n *apiNode) vpcOf(t *testing.T, name string, vni int32, subnet string) {
	t.Helper()
	ready := []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyReason, LastTransitionTime: metav1.Now()}}
	n.create(t, &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16"}}})
	n.status(t, &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(obj client.Object) {
		obj.(*v1alpha1.VPC).Status.VNI, obj.(*v1alpha1.VPC).Status.Conditions = vni, ready
	})
	n.create(t, &v1alpha1.Subnet{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-net1"},
		Spec:       v1alpha1.SubnetSpec{VPC: name, Name: "net1", CIDRs: []string{subnet}},
	})
	n.status(t, &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name + "-net1"}}, func(obj client.Object) {
		obj.(*v1alpha1.Subnet).Status.Conditions = ready
	})
}

// pod makes a pod that is bound to this node, and its sandbox.
func (n *apiNode) pod(t *testing.T, name, vpc, ip string, probe *corev1.Probe) *labPod {
	t.Helper()
	n.create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			NodeName:   n.name,
			Containers: []corev1.Container{{Name: "c", Image: "image", ReadinessProbe: probe}},
		},
	})
	return &labPod{
		NetNS: testnet.New(t), name: name, vpc: vpc, node: n.machine,
		addrs: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(ip), 24)},
	}
}

// decide takes the operator's decision for a pod.
func (n *apiNode) decide(t *testing.T, p *labPod) {
	t.Helper()
	text := n.claimAddress(t, p)
	n.status(t, n.get(t, p), func(obj client.Object) {
		annotate(obj, map[string]string{v1alpha1.AttachmentsAnnotation: text, arktosv1.ReadinessAnnotation: "true"})
	})
}

// annotate gives a pod annotations, and the condition that it is attached.
func annotate(obj client.Object, annotations map[string]string) {
	obj.SetAnnotations(annotations)
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: v1alpha1.NetworkReadyCondition, Status: corev1.ConditionTrue, Reason: v1alpha1.AttachedReason,
		}}
	}
}

// claimAddress makes a pod's Address object, and returns the content of the pod's annotation.
func (n *apiNode) claimAddress(t *testing.T, p *labPod) string {
	t.Helper()
	pod := n.get(t, p)
	ip := p.ip(ipfamily.IPv4)
	row := addressRow(p.vpc, "", ip.String(), "", store.Holder{}, ip.String())
	n.create(t, &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(p.vpc, ip)},
		Spec: v1alpha1.AddressSpec{
			VPC: p.vpc, Subnet: p.vpc + "-net1", IP: ip.String(), MAC: row.MAC, Node: n.name,
			Holder:     v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "default", Name: p.name, UID: string(pod.UID)},
			Attachment: v1alpha1.PodAttachment, Set: []string{ip.String()},
		},
	})
	text, err := annotations.FormatAttachments([]netif.Interface{{
		Name: "eth0", Kind: "veth", VPC: p.vpc, Subnet: p.vpc + "-net1", Addresses: p.addrs, MAC: row.MAC,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (n *apiNode) get(t *testing.T, p *labPod) *corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	if err := n.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: p.name}, &pod); err != nil {
		t.Fatal(err)
	}
	p.uid = string(pod.UID)
	return &pod
}

func (n *apiNode) deletePod(t *testing.T, p *labPod) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.name}}
	if err := n.api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// addressGone returns nil when the Address of a pod has been deleted.
func (n *apiNode) addressGone(p *labPod) error {
	err := n.api.Get(context.Background(), client.ObjectKey{Name: v1alpha1.AddressName(p.vpc, p.ip(ipfamily.IPv4))}, &v1alpha1.Address{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("address of %s is still there (%w)", p.name, err)
}

func TestDaemon_APIObjects_PodsServed(t *testing.T) {
	n := newAPINode(t, "api-serves")
	n.vpc(t, "serves", 41)
	n.start(t)
	a, b := n.pod(t, "serves-a", "serves", "10.10.1.10", nil), n.pod(t, "serves-b", "serves", "10.10.1.11", nil)
	n.get(t, a)
	attached := make(chan error, 1)
	go func() { attached <- n.lab.cni(t, "ADD", a) }() // before the operator has decided
	n.decide(t, a)
	n.decide(t, b)
	if err := <-attached; err != nil {
		t.Fatal(err)
	}
	if err := n.lab.cni(t, "ADD", b); err != nil {
		t.Fatal(err)
	}
	b.serve(t)
	if _, got, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4)); err != nil || got != b.name {
		t.Errorf("answered by %q, error %v", got, err)
	}
	eventually(t, "the node's condition NetworkUnavailable is cleared", func() error {
		var node corev1.Node
		if err := n.api.Get(t.Context(), client.ObjectKey{Name: n.name}, &node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse {
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", node.Status.Conditions)
	})
}

// TestNodeCondition_DaemonRestart_StaysAvailable restarts a daemon as an upgrade does: another
// message, and the time since when the network is available.
func TestNodeCondition_DaemonRestart_StaysAvailable(t *testing.T) {
	n := newAPINode(t, "api-available")
	since := metav1.NewTime(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	node := &corev1.Node{}
	if err := n.api.Get(t.Context(), client.ObjectKey{Name: n.name}, node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "OfAnOlderDaemon", LastTransitionTime: since,
	}}
	if err := n.api.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	var now corev1.NodeCondition
	eventually(t, "the new daemon has written the condition", func() error {
		if err := n.api.Get(t.Context(), client.ObjectKey{Name: n.name}, node); err != nil {
			return err
		}
		for _, now = range node.Status.Conditions {
			if now.Type == corev1.NodeNetworkUnavailable && now.Reason != "OfAnOlderDaemon" {
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", node.Status.Conditions)
	})
	if !now.LastTransitionTime.Equal(&since) || now.Status != corev1.ConditionFalse {
		t.Errorf("the network is available since %s, want %s: %+v", now.LastTransitionTime, since, now)
	}
}

func TestAddress_PodAndLastAttachmentGone_Released(t *testing.T) {
	n := newAPINode(t, "api-releases")
	n.vpc(t, "releases", 42)
	n.start(t)
	p := n.pod(t, "releases-a", "releases", "10.10.1.10", nil)
	n.decide(t, p)
	for range 2 { // the second time for a restarted sandbox of the living pod
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
		if err := n.lab.cni(t, "DEL", p); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.lab.cni(t, "ADD", p); err != nil {
		t.Fatalf("ADD of a pod that is alive after two DELs: %v", err)
	}
	n.deletePod(t, p)
	if err := n.lab.cni(t, "DEL", p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

func TestAddress_PodWithoutSandbox_Released(t *testing.T) {
	n := newAPINode(t, "api-unborn")
	n.vpc(t, "unborn", 43)
	n.start(t)
	p := n.pod(t, "unborn-a", "unborn", "10.10.1.10", nil)
	n.decide(t, p)
	n.deletePod(t, p)
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

func TestDEL_APIServerDown_AddressReleasedLater(t *testing.T) {
	n := newAPINode(t, "api-away")
	n.vpc(t, "away", 44)
	n.start(t)
	p := n.pod(t, "away-a", "away", "10.10.1.10", nil)
	n.decide(t, p)
	if err := n.lab.cni(t, "ADD", p); err != nil {
		t.Fatal(err)
	}
	n.link.cut()
	if err := n.lab.cni(t, "DEL", p); err != nil {
		t.Fatalf("DEL without the API server: %v", err)
	}
	n.stop(unix.SIGKILL) // the queue is on disk
	n.deletePod(t, p)
	if n.addressGone(p) == nil {
		t.Fatal("the Address is gone already")
	}
	n.link.restore()
	n.start(t)
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

func TestDaemon_StartWithoutAPIServer_AttachmentsManaged(t *testing.T) {
	n := newAPINode(t, "api-start")
	n.vpc(t, "start", 45)
	n.start(t)
	a, b := n.pod(t, "start-a", "start", "10.10.1.10", nil), n.pod(t, "start-b", "start", "10.10.1.11", nil)
	gone := n.pod(t, "start-c", "start", "10.10.1.12", nil)
	for _, p := range []*labPod{a, b, gone} {
		n.decide(t, p)
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
	}
	b.serve(t)
	n.stop(unix.SIGKILL)
	n.link.cut()
	n.launch(t)
	eventually(t, "DEL works", func() error { return n.lab.cni(t, "DEL", gone) })
	if _, got, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4)); err != nil || got != b.name {
		t.Errorf("without the API server: answered by %q, error %v", got, err)
	}
	n.link.restore()
	n.awaitConflist(t)
	if _, got, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4)); err != nil || got != b.name {
		t.Errorf("after the API server is back: answered by %q, error %v", got, err)
	}
}

func TestAttach_ProbedPodsShareAddress_OneRefused(t *testing.T) {
	n := newAPINode(t, "api-probes")
	n.cfg.Wait = time.Second
	n.vpc(t, "probes-a", 46)
	n.vpc(t, "probes-b", 47)
	n.start(t)
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
	first, second := n.pod(t, "probes-first", "probes-a", "10.10.1.10", probe), n.pod(t, "probes-second", "probes-b", "10.10.1.10", probe)
	n.decide(t, first)
	n.decide(t, second)
	if err := n.lab.cni(t, "ADD", first); err != nil {
		t.Fatal(err)
	}
	err := n.lab.cni(t, "ADD", second)
	if err == nil || !strings.Contains(err.Error(), `"code": 11`) || !strings.Contains(err.Error(), "default/probes-first") {
		t.Fatalf("ADD of the second: %v; want code 11 naming the first", err)
	}
	n.warning(t, "Pod", second.name, v1alpha1.ProbeConflictReason)
	if err := n.lab.cni(t, "DEL", first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second is attached once the kubelet has forgotten the first", func() error {
		return n.lab.cni(t, "ADD", second)
	})
}

func TestProbes_PodForceDeleted_SuccessorNotProbed(t *testing.T) {
	n := newAPINode(t, "api-late-probes")
	n.cfg.Wait = 30 * time.Second
	n.vpc(t, "late-a", 48)
	n.vpc(t, "late-b", 49)
	n.start(t)
	probe := &corev1.Probe{
		TimeoutSeconds: 2, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
	}
	first, second := n.pod(t, "late-first", "late-a", "10.10.1.10", probe), n.pod(t, "late-second", "late-b", "10.10.1.10", probe)
	n.decide(t, first)
	n.decide(t, second)
	if err := n.lab.cni(t, "ADD", first); err != nil {
		t.Fatal(err)
	}
	n.deletePod(t, first)
	attached := make(chan error, 1)
	go func() { attached <- n.lab.cni(t, "ADD", second) }()
	select { // the API has forgotten it, the node has not
	case err := <-attached:
		t.Fatalf("ADD of the successor while the old sandbox is there: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	began := time.Now()
	if err := n.lab.cni(t, "DEL", first); err != nil {
		t.Fatal(err)
	}
	// A daemon that starts in between does not know for how long.
	n.stop(unix.SIGKILL)
	if err := <-attached; err == nil {
		t.Error("an ADD succeeded whose daemon was killed while the address was held")
	}
	n.start(t)
	if err := n.lab.cni(t, "ADD", second); err != nil {
		t.Fatal(err)
	}
	if held, least := time.Since(began), 2*time.Second+release.ProbesEnd; held < least {
		t.Errorf("the successor was attached after %s, which is before %s", held, least)
	}
	second.serve(t)
	if got, err := n.probe(t, "10.10.1.10:80"); err != nil || got != "late-second\n" {
		t.Errorf("its own probe: %q, %v", got, err)
	}
}
