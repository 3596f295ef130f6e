// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights_test runs the operator with nothing but the rights that the
// installed chart gives it. The daemon is run so by the tests of package cnid.
package rights_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/api/refusal"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

const (
	root = "../../.."
	name = "rights"
	// within bounds every wait. A term of the operator may begin by waiting
	// ten seconds for nodes.
	within = 90 * time.Second
)

// install installs the chart with args and returns the administrator's client.
func install(t *testing.T, args ...string) (client.Client, *apiserver.Server) {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	needs.Kubernetes(t)
	server, err := apiserver.NewBare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if err := chart.New(t, root, server.Config()).Upgrade(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kinds.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(server.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c, server
}

// log keeps the log of the operator, for when the test fails.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// operate runs the operator with the token of its ServiceAccount until the test
// ends, with changes of its configuration.
func operate(t *testing.T, config *rest.Config, changes ...func(*operator.Config)) {
	t.Helper()
	token, err := kubernetes.NewForConfigOrDie(config).CoreV1().ServiceAccounts(chart.Namespace).
		CreateToken(t.Context(), "alioth-operator", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config.BearerToken = token.Status.Token
	cfg := operator.DefaultConfig()
	cfg.Kubeconfig, cfg.Namespace, cfg.HealthAddr, cfg.MetricsAddr = filepath.Join(t.TempDir(), "kubeconfig"), chart.Namespace, "", ""
	cfg.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix(apiserver.ServiceCIDR4), netip.MustParsePrefix(apiserver.ServiceCIDR6)}
	for _, change := range changes {
		change(&cfg)
	}
	if err := chart.WriteKubeconfig(cfg.Kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	logged := new(log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx, cfg, slog.New(slog.NewTextHandler(logged, nil))) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended with %v", err)
		}
		if t.Failed() {
			t.Logf("the operator's log:\n%s", logged.text.String())
		}
	})
}

func until(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, waits.Limit(within), true, done); err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}

// ignoreNotReady ignores that admission lacks something.
func ignoreNotReady(err error) error {
	if refusal.MayPass(err) {
		return nil
	}
	return err
}

// TestOperatorRights_AllControllers_ExactlyUsed leads it through everything that it writes: lease,
// finalizers, status, claims, the pod's patch, events, release.
func TestOperatorRights_AllControllers_ExactlyUsed(t *testing.T) {
	// Without ScaledEndpoints no role is placed.
	admin, server := install(t, "--set", "scaledEndpoints.enabled=true")
	operate(t, server.Config(), func(cfg *operator.Config) { cfg.ScaledEndpoints = true })
	named := metav1.ObjectMeta{Name: name}
	node := &corev1.Node{ObjectMeta: named, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	vpc := &v1alpha1.VPC{ObjectMeta: named, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16", "fd10:10::/48"}, AllowedTenants: []string{name}}}
	subnet := &v1alpha1.Subnet{ObjectMeta: named, Spec: v1alpha1.SubnetSpec{VPC: name, CIDRs: []string{"10.10.1.0/24", "fd10:10:0:1::/64"}}}
	network := &arktosv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: arktosv1.NetworkSpec{Type: arktosv1.TypeVPC, VPCID: name}}
	served, refused := newPod("served", name), newPod("refused", "nowhere")
	shared := &v1alpha1.SharedService{ObjectMeta: named, Spec: v1alpha1.SharedServiceSpec{Namespace: "default", Name: "kubernetes"}}
	for _, object := range []client.Object{
		node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: name}}},
		// A daemon has run there: it releases what pods hold.
		&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(name)}, Spec: v1alpha1.RollCallSpec{Call: "earlier"}},
		vpc, subnet, network, served, refused, shared,
	} {
		// Pods are forbidden until admission has the operator's parameters.
		until(t, fmt.Sprintf("%T %s is created", object, object.GetName()), func(ctx context.Context) (bool, error) {
			err := admin.Create(ctx, object)
			return err == nil, ignoreNotReady(err)
		})
	}
	until(t, "the pod has its addresses", func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(served), served)
		return served.Annotations[v1alpha1.AttachmentsAnnotation] != "", err
	})
	until(t, "the shared Service is found usable", func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(shared), shared)
		return len(shared.Status.ClusterIPs) > 0, err
	})
	until(t, "the other has an event that says why not", func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		err := admin.List(ctx, &events, client.InNamespace(name))
		for i := range events.Items {
			if events.Items[i].InvolvedObject.Name == refused.Name && events.Items[i].Reason == v1alpha1.NetworkNotFoundReason {
				return true, err
			}
		}
		return false, err
	})

	flip(t, admin)
	complete(t, admin, server, node)
	balance(t, admin)
	attachOutside(t, admin, server)
	bounce(t, admin, node, subnet)

	// Without the node, nothing can be there that holds the addresses.
	for _, object := range []client.Object{served, refused, shared, node, network, subnet, vpc} {
		if err := admin.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
			t.Fatalf("delete %T: %v", object, err)
		}
	}
	until(t, "addresses, VPC and VNI are released", func(ctx context.Context) (bool, error) {
		return nothingLeft(ctx, admin)
	})
	objects, err := chart.New(t, root, nil).Template(t.Context(), "--set", "scaledEndpoints.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	requests, err := server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	denied, unused, err := chart.Account{Name: "alioth-operator"}.Compare(objects, requests)
	if err != nil {
		t.Fatal(err)
	}
	unused = slices.DeleteFunc(unused, func(right string) bool { return slices.Contains(forRaces, right) })
	if len(denied) > 0 || len(unused) > 0 {
		t.Errorf("the operator was refused %q, and makes no use of %q", denied, unused)
	}
}

// forRaces are rights that the operator uses only in a race. With another claim it looks at the
// object in the way (package operator/claim), or replaces it; before it releases a number, or
// replaces the number of a network, it looks for the holder (package operator/danm).
var forRaces = []string{
	"get addresses.alioth.dev", "get externaladdresses.alioth.dev",
	"get hostvniclaims.alioth.dev",
	"get danmnets.danm.io", "get danmnets.danm.k8s.io", "get tenantnetworks.danm.io", "get tenantnetworks.danm.k8s.io",
	"get clusternetworks.danm.io", "get clusternetworks.danm.k8s.io",
	// Admission alone asks for it, and only with OwnerReferencesPermissionEnforcement.
	"update services/finalizers",
}

// complete has the operator add the configuration to the Addresses of a pod. Release 0.1 made such
// Addresses. The test makes them in the name of the operator.
func complete(t *testing.T, admin client.Client, server *apiserver.Server, node *corev1.Node) {
	t.Helper()
	config := server.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + chart.Namespace + ":alioth-operator", Groups: []string{"system:authenticated"},
	}
	earlier, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	pod := newPod("earlier", "later")
	if err := admin.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	ips := []string{"10.10.1.99", "fd10:10:0:1::99"}
	for _, ip := range ips {
		address := &v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(name, netip.MustParseAddr(ip))},
			Spec: v1alpha1.AddressSpec{
				VPC: name, Subnet: name, IP: ip, MAC: "02:0a:0a:0a:01:63", Node: node.Name,
				Attachment: v1alpha1.PodAttachment, Set: ips,
				Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: name, Name: pod.Name, UID: string(pod.UID)},
			},
		}
		if err := earlier.Create(t.Context(), address); err != nil {
			t.Fatal(err)
		}
	}
	network := &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "later"}, Spec: arktosv1.NetworkSpec{Type: arktosv1.TypeVPC, VPCID: name},
	}
	if err := admin.Create(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	until(t, "the Addresses have their configuration", func(ctx context.Context) (bool, error) {
		address := &v1alpha1.Address{}
		err := admin.Get(ctx, client.ObjectKey{Name: v1alpha1.AddressName(name, netip.MustParseAddr(ips[0]))}, address)
		return address.Spec.Config != nil, err
	})
	for _, object := range []client.Object{pod, network} {
		if err := admin.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// balance has the operator give addresses to load balancers, and take them back.
func balance(t *testing.T, admin client.Client) {
	t.Helper()
	subnet := &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "rights-lb"}, Spec: v1alpha1.SubnetSpec{
		VPC: name, CIDRs: []string{"10.10.2.0/24"}, Use: v1alpha1.SubnetForServices,
	}}
	pool := &v1alpha1.ExternalPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ExternalPoolSpec{
		CIDRs: []string{"192.0.2.16/28"}, AllowedTenants: []string{name},
	}}
	granted := &v1alpha1.ExternalPool{ObjectMeta: metav1.ObjectMeta{Name: "rights-granted"}, Spec: v1alpha1.ExternalPoolSpec{
		CIDRs: []string{"198.51.100.7"}, AllowedTenants: []string{name}, Use: v1alpha1.PoolForExternalIPs,
	}}
	services := []*corev1.Service{newBalancer("inside", v1alpha1.LoadBalancerVPC), newBalancer("outside", v1alpha1.LoadBalancerExternal)}
	access := &v1alpha1.HostAccess{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.HostAccessSpec{
		AllowedTenants: []string{name}, HostPorts: []string{"8080"},
	}}
	objects := []client.Object{subnet, pool, granted, access, services[0], services[1]}
	for _, object := range objects {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T: %v", object, err)
		}
	}
	for _, service := range services {
		until(t, "load balancer "+service.Name+" has its address", func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(service), service)
			return len(service.Status.LoadBalancer.Ingress) == 1, err
		})
	}
	until(t, "nodes are told of both load balancers", func(ctx context.Context) (bool, error) {
		reported, err := scaledServices(ctx, admin)
		return reported["inside"] && reported["outside"], err
	})
	until(t, "the node announces the address outside", func(ctx context.Context) (bool, error) {
		var addresses v1alpha1.ExternalAddressList
		err := admin.List(ctx, &addresses)
		return len(addresses.Items) == 1 && addresses.Items[0].Status.Node == name, err
	})
	until(t, "admission is told what tenants have of nodes", func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(access), access)
		return len(access.Status.Conditions) > 0, err
	})
	until(t, "admission is told of external IPs", func(ctx context.Context) (bool, error) {
		var grants v1alpha1.AdmissionGrants
		err := admin.Get(ctx, client.ObjectKey{Name: v1alpha1.ExternalIPGrants}, &grants)
		return len(grants.ExternalIPs) > 0, err
	})
	slices.Reverse(objects)
	for _, object := range objects {
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Fatalf("delete %T: %v", object, err)
		}
	}
	until(t, "the addresses are released", func(ctx context.Context) (bool, error) {
		var external v1alpha1.ExternalAddressList
		err := admin.List(ctx, &external)
		return len(external.Items) == 0, err
	})
	until(t, "nodes are told of them no longer", func(ctx context.Context) (bool, error) {
		reported, err := scaledServices(ctx, admin)
		return len(reported) == 0, err
	})
}

// scaledServices returns the names of the namespace's Services that have a ScaledEndpoint.
func scaledServices(ctx context.Context, admin client.Client) (map[string]bool, error) {
	var list v1alpha1.ScaledEndpointList
	err := admin.List(ctx, &list)
	reported := map[string]bool{}
	for i := range list.Items {
		if service := &list.Items[i].Spec.Service; service.Namespace == name {
			reported[service.Name] = true
		}
	}
	return reported, err
}

func newBalancer(service, where string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: service, Labels: map[string]string{arktosv1.NetworkLabel: name},
			Annotations: map[string]string{v1alpha1.LoadBalancerAnnotation: where},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To(v1alpha1.LoadBalancerClass), Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
}

// flip has the operator write the same event about a Network twice. The event is then counted up.
func flip(t *testing.T, admin client.Client) {
	t.Helper()
	const other = "rights-other"
	network := &arktosv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: other}, Spec: arktosv1.NetworkSpec{Type: arktosv1.TypeVPC, VPCID: other}}
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: other}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.20.0.0/16"}, AllowedTenants: []string{name}}}
	says := func(reason string) {
		until(t, "the Network says "+reason, func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(network), network)
			c := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ReadyCondition)
			return c != nil && c.Reason == reason, err
		})
	}
	if err := admin.Create(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	says(v1alpha1.VPCNotFoundReason)
	if err := admin.Create(t.Context(), vpc); err != nil {
		t.Fatal(err)
	}
	says(v1alpha1.NoReadySubnetReason)
	if err := admin.Delete(t.Context(), vpc); err != nil {
		t.Fatal(err)
	}
	says(v1alpha1.VPCNotFoundReason)
	until(t, "the event is counted up", func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := admin.List(ctx, &list, client.InNamespace(name))
		return slices.ContainsFunc(list.Items, func(event eventsv1.Event) bool {
			return event.Regarding.Name == other && event.Reason == v1alpha1.VPCNotFoundReason && event.Series != nil
		}), err
	})
	if err := admin.Delete(t.Context(), network); err != nil {
		t.Fatal(err)
	}
}

func newPod(pod, network string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: pod, Labels: map[string]string{arktosv1.NetworkLabel: network}},
		Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}
}

// nothingLeft reports whether all of the VPC is gone that is called name.
func nothingLeft(ctx context.Context, admin client.Client) (bool, error) {
	var addresses v1alpha1.AddressList
	var claims v1alpha1.VNIClaimList
	var vpcs v1alpha1.VPCList
	for _, list := range []client.ObjectList{&addresses, &claims, &vpcs} {
		if err := admin.List(ctx, list); err != nil {
			return false, fmt.Errorf("list: %w", err)
		}
	}
	left := 0
	for i := range addresses.Items {
		if addresses.Items[i].Spec.VPC == name {
			left++
		}
	}
	for i := range claims.Items {
		if claims.Items[i].Spec.VPC == name {
			left++
		}
	}
	for i := range vpcs.Items {
		if vpcs.Items[i].Name == name {
			left++
		}
	}
	return left == 0, nil
}
