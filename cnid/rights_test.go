// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cluster/report"
	"github.com/alioth-net/alioth/cnid/forward/lookup"
	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/api/chart"
)

// installed is the part of the chart that defines the daemon's rights: its roles, and the
// admission policies that limit it to its own node.
var installed struct {
	once sync.Once
	all  []*unstructured.Unstructured
}

// installChart installs this part, once for all tests of the package, and returns
// the whole chart.
func installChart(t *testing.T, api client.Client) []*unstructured.Unstructured {
	t.Helper()
	installed.once.Do(func() {
		objects, err := chart.New(t, "..", nil).Template(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		installed.all = objects
		if err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace}}); err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			policy := strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") && strings.HasPrefix(object.GetName(), "alioth-daemon-")
			if !policy && object.GetName() != report.Component || object.GetKind() == "DaemonSet" {
				continue
			}
			if err := api.Create(t.Context(), object.DeepCopy()); err != nil {
				t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	})
	if installed.all == nil {
		t.Fatal("the chart could not be installed")
	}
	return installed.all
}

// token returns a token as the kubelet mounts it into the daemon's pod on this node.
func (n *apiNode) token(t *testing.T, config *rest.Config) string {
	t.Helper()
	installChart(t, n.api)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: report.Component + "-" + n.name},
		Spec: corev1.PodSpec{
			NodeName: n.name, ServiceAccountName: report.Component, HostNetwork: true,
			Containers: []corev1.Container{{Name: "cnid", Image: "image"}},
		},
	}
	n.create(t, pod)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	answer, err := kubernetes.NewForConfigOrDie(config).CoreV1().ServiceAccounts(chart.Namespace).
		CreateToken(t.Context(), report.Component, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// releasesInterfaces makes the daemon report that the interface of a pod is gone, which was
// deleted by force.
func (n *apiNode) releasesInterfaces(t *testing.T) {
	t.Helper()
	claim := &v1alpha1.AttachmentClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "forced.net1", Finalizers: []string{"example.com/held"}},
		Spec: v1alpha1.AttachmentClaimSpec{
			Pod: v1alpha1.AttachmentPod{Name: "rights-forced", UID: "forced"}, Node: n.name, Interface: "net1", Driver: "macvlan",
			Network:    v1alpha1.NetworkReference{Group: "danm.k8s.io", Kind: "ClusterNetwork", Name: "external", UID: "1"},
			ConfigHash: strings.Repeat("0", 64),
		},
	}
	n.create(t, claim)
	if err := n.api.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon reports that the interface is gone", func() error {
		if err := n.api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || claim.Status.Released {
			return err
		}
		return errors.New("it does not")
	})
	claim.Finalizers = nil
	if err := n.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

// reportsLinks makes the daemon report that its node lacks two links, one after the other.
func (n *apiNode) reportsLinks(t *testing.T) {
	t.Helper()
	for i, device := range []string{"missing0", "missing1"} {
		link := &v1alpha1.HostLink{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HostLinkName(v1alpha1.HostLinkVXLAN, 7, device)},
			Spec:       v1alpha1.HostLinkSpec{Type: v1alpha1.HostLinkVXLAN, VNI: 7, Device: device},
		}
		n.create(t, link)
		eventually(t, "the daemon reports that the node lacks a link", func() error {
			report := &v1alpha1.HostLinkReport{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
			err := n.api.Get(t.Context(), client.ObjectKeyFromObject(report), report)
			if err == nil && (len(report.Spec.Failures) != i+1 || report.Spec.Failures[i].Device != device) {
				err = fmt.Errorf("it reports %+v", report.Spec)
			}
			return err
		})
	}
	n.warning(t, "Node", n.name, v1alpha1.HostLinkFailedReason)
}

// reportsRoles makes the daemon report that it lists a bouncer on itself, and that the
// bouncer's table is complete.
func (n *apiNode) reportsRoles(t *testing.T, vpc string) {
	t.Helper()
	var of v1alpha1.VPC
	var subnet v1alpha1.Subnet
	var node corev1.Node
	for name, object := range map[string]client.Object{vpc: &of, vpc + "-net1": &subnet, n.name: &node} {
		if err := n.api.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	n.status(t, &of, func(obj client.Object) { obj.(*v1alpha1.VPC).Status.RolesRevision = 1 })
	member := &v1alpha1.RoleMember{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.RoleMemberName(string(subnet.UID), n.name)},
		Spec: v1alpha1.RoleMemberSpec{
			Role: v1alpha1.RoleBouncer, VPC: vpc, VPCUID: string(of.UID), Subnet: subnet.Name, SubnetUID: string(subnet.UID),
			Node: n.name, NodeUID: string(node.UID), Stage: v1alpha1.StageJoining, Revision: 1,
		},
	}
	n.create(t, member)
	eventually(t, "the daemon reports that the table of the bouncer is complete", func() error {
		if err := n.api.Get(t.Context(), client.ObjectKeyFromObject(member), member); err != nil || member.Status.Complete {
			return err
		}
		return errors.New("it does not")
	})
	eventually(t, "the daemon reports what it lists", func() error {
		report := &v1alpha1.NodeRoles{}
		err := n.api.Get(t.Context(), client.ObjectKey{Name: n.name}, report)
		want := []v1alpha1.ListedMembers{{UID: string(of.UID), Revision: 1}}
		if err == nil && !slices.Equal(report.Spec.VPCs, want) {
			err = fmt.Errorf("it reports %+v, want %+v", report.Spec, want)
		}
		return err
	})
	if err := n.api.Delete(t.Context(), member); err != nil {
		t.Fatal(err)
	}
}

// looksUp asks for an Address with the daemon's token, as the daemon asks for Addresses that
// packets miss.
func (n *apiNode) looksUp(t *testing.T, vpc, addr string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", n.cfg.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Host = server.Config(t).Host // the other way is the node's alone
	api, err := newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	question := cache.Question{Key: cache.Key{VNI: 57, IP: netip.MustParseAddr(addr)}, VPC: vpc}
	if answer := lookup.NewAPI(api).Resolve(t.Context(), question); answer.Result != cache.Found || answer.Address.Node != n.name {
		t.Errorf("the Address is %s: %+v", answer.Result, answer.Address)
	}
}

// TestDaemonRights_ChartRole_AllUsedNoneMissing leads it
// through everything that it asks of the API server.
func TestDaemonRights_ChartRole_AllUsedNoneMissing(t *testing.T) {
	n := newAPINode(t, "api-rights")
	n.cfg.RecheckEvery = 100 * time.Millisecond
	n.vpc(t, "rights", 57)
	n.start(t)
	p := n.pod(t, "rights-a", "rights", "10.10.1.10", nil)
	// As if the pod had selected a definition: it has a network status then.
	text := strings.Replace(n.claimAddress(t, p), `"name":"eth0"`, `"name":"eth0","definition":"default/second"`, 1)
	n.status(t, n.get(t, p), func(obj client.Object) {
		annotate(obj, map[string]string{v1alpha1.AttachmentsAnnotation: text, arktosv1.ReadinessAnnotation: "true"})
	})
	if err := n.lab.cni(t, "ADD", p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod has a network status", func() error {
		if text := n.get(t, p).GetAnnotations()[annotations.NetworkStatusKey]; !strings.Contains(text, `"ips":["10.10.1.10"]`) {
			return fmt.Errorf("it is %q", text)
		}
		return nil
	})
	n.releasesInterfaces(t)
	n.reportsLinks(t)
	n.reportsRoles(t, "rights")
	n.looksUp(t, "rights", "10.10.1.10")
	for _, call := range []string{"first", "second"} {
		n.call(t, call)
		eventually(t, "the node answers", n.answered(call, 57, true))
	}
	n.health(t, v1alpha1.NetworkHealthyReason)
	// The same event twice is one event that is counted up.
	testnet.In(t, n.NetNS, netfilter.Remove)
	n.warning(t, "Node", n.name, v1alpha1.RepairedReason)
	testnet.In(t, n.NetNS, netfilter.Remove)
	eventually(t, "the event is counted up", func() error {
		if event := n.warning(t, "Node", n.name, v1alpha1.RepairedReason); event.Series == nil {
			return errors.New("it was said once")
		}
		return nil
	})
	n.deletePod(t, p)
	if err := n.lab.cni(t, "DEL", p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })

	requests, err := server.Server(t).Requests()
	if err != nil {
		t.Fatal(err)
	}
	refused, unused, err := chart.Account{Name: report.Component, Node: n.name}.Compare(installChart(t, n.api), requests)
	if err != nil {
		t.Fatal(err)
	}
	if len(refused) > 0 || len(unused) > 0 {
		t.Errorf("the daemon was refused %q, and makes no use of %q", refused, unused)
	}
}
