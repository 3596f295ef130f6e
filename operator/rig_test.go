// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/waits"
)

var server apiserver.Shared

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctrllog.SetLogger(logr.Discard())
	os.Exit(server.Run(m))
}

// within bounds every wait; a busy machine must not fail a test.
const within = time.Minute

// rig is a real API server with an operator that runs as long as the test.
type rig struct {
	t *testing.T
	client.Client
	config *rest.Config
}

// newRig connects with the server. Its objects are named after the test by the
// test itself, because the server is shared.
func newRig(t *testing.T) *rig {
	t.Helper()
	config := server.Config(t)
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, Client: c, config: config}
	for _, object := range []client.Object{newNode("node-1"), newAnswer("node-1")} {
		if err := c.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	return r
}

// testConfig returns an operator's configuration whose default VPC does not
// concern other tests.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.LeaderElect, cfg.HealthAddr, cfg.MetricsAddr = false, "", ""
	cfg.DefaultVPC = "no-such-default"
	cfg.ServiceCIDRs = []netip.Prefix{
		netip.MustParsePrefix(apiserver.ServiceCIDR4), netip.MustParsePrefix(apiserver.ServiceCIDR6),
	}
	return cfg
}

// operate starts an operator and returns a function that ends it.
func (r *rig) operate(cfg Config) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(outputOf(r.t), nil))
	go func() { ended <- run(ctx, cfg, r.config, log) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("the operator ended with %v", err)
		}
	}
	r.t.Cleanup(stop)
	return stop
}

// output is a test's output until the test ends: events are recorded in the
// background, and their failures logged later than that.
type output struct {
	mu   sync.Mutex
	into io.Writer
}

func outputOf(t *testing.T) *output {
	o := &output{into: t.Output()}
	t.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.into = io.Discard
	})
	return o
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.into.Write(text)
}

// start is operate with the configuration of most tests.
func start(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.operate(testConfig())
	return r
}

func (r *rig) create(objects ...client.Object) {
	r.t.Helper()
	for _, object := range objects {
		if err := r.Create(r.t.Context(), object); err != nil {
			r.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

func (r *rig) delete(object client.Object) {
	r.t.Helper()
	if err := r.Delete(r.t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
		r.t.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

func (r *rig) get(object client.Object) {
	r.t.Helper()
	if err := r.Get(r.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		r.t.Fatalf("get %T %s: %v", object, object.GetName(), err)
	}
}

// eventually tries check until it returns nil.
func (r *rig) eventually(check func() error) {
	r.t.Helper()
	waits.Until(r.t, within, "a check passes", check)
}

// sees waits until an object is as check wants it.
func sees[O client.Object](r *rig, object O, check func(O) error) {
	r.t.Helper()
	r.eventually(func() error {
		if err := r.Get(r.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return check(object)
	})
}

func (r *rig) gone(object client.Object) {
	r.t.Helper()
	r.eventually(func() error {
		err := r.Get(r.t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("%T %s is still there", object, object.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

// ready makes a check of the Ready condition.
func ready(conditions []metav1.Condition, reason string) error {
	c := meta.FindStatusCondition(conditions, v1alpha1.ReadyCondition)
	if c == nil {
		return fmt.Errorf("no Ready condition, want reason %s", reason)
	}
	if c.Reason != reason || (c.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReadyReason) {
		return fmt.Errorf("Ready is %s, reason %s (%s), want reason %s", c.Status, c.Reason, c.Message, reason)
	}
	return nil
}

func vpcReady(reason string) func(*v1alpha1.VPC) error {
	return func(v *v1alpha1.VPC) error { return ready(v.Status.Conditions, reason) }
}

func subnetReady(reason string) func(*v1alpha1.Subnet) error {
	return func(s *v1alpha1.Subnet) error { return ready(s.Status.Conditions, reason) }
}

func networkReady(reason string) func(*arktosv1.Network) error {
	return func(n *arktosv1.Network) error { return ready(n.Status.Conditions, reason) }
}

func newVPC(name string, tenants []string, cidrs ...string) *v1alpha1.VPC {
	return &v1alpha1.VPC{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.VPCSpec{CIDRs: cidrs, AllowedTenants: tenants},
	}
}

func newSubnet(name, vpc, short string, cidrs ...string) *v1alpha1.Subnet {
	return &v1alpha1.Subnet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.SubnetSpec{VPC: vpc, Name: short, CIDRs: cidrs},
	}
}

func newNetwork(namespace, name, vpc string) *arktosv1.Network {
	return &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: vpc},
	}
}

func newNamespace(name, tenant string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if tenant != "" {
		ns.Labels = map[string]string{v1alpha1.TenantLabel: tenant}
	}
	return ns
}

// newAnswer is of a daemon that has run on a node: it has to release what pods hold there.
func newAnswer(node string) *v1alpha1.RollCall {
	return &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(node)}, Spec: v1alpha1.RollCallSpec{Call: "earlier"}}
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// newPod returns a pod that asks for a network and nic; "" for neither.
func newPod(namespace, name, network, nic string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			Containers:                   []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	if network != "" {
		pod.Labels = map[string]string{arktosv1.NetworkLabel: network}
	}
	if nic != "" {
		pod.Annotations = map[string]string{arktosv1.NICAnnotation: nic}
	}
	return pod
}

// bind does the work of the scheduler.
func (r *rig) bind(pod *corev1.Pod, node string) {
	r.t.Helper()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := r.SubResource("binding").Create(r.t.Context(), pod, binding); err != nil {
		r.t.Fatalf("bind pod %s: %v", pod.Name, err)
	}
}

// schedule creates a pod and binds it.
func (r *rig) schedule(pod *corev1.Pod, node string) *corev1.Pod {
	r.t.Helper()
	r.create(pod)
	r.bind(pod, node)
	return pod
}

// told makes a check of the pod's NetworkReady condition.
func hasReason(reason string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type != v1alpha1.NetworkReadyCondition {
				continue
			}
			if c.Reason != reason || (c.Status == corev1.ConditionTrue) != (reason == v1alpha1.AttachedReason) {
				return fmt.Errorf("pod %s has %s, reason %s (%s), want reason %s", pod.Name, c.Status, c.Reason, c.Message, reason)
			}
			return nil
		}
		return fmt.Errorf("pod %s has been told nothing, want reason %s", pod.Name, reason)
	}
}

// held returns the addresses of a holder, by UID.
func (r *rig) held(uid string) []v1alpha1.Address {
	r.t.Helper()
	var list v1alpha1.AddressList
	if err := r.List(r.t.Context(), &list); err != nil {
		r.t.Fatal(err)
	}
	var mine []v1alpha1.Address
	for _, address := range list.Items {
		if address.Spec.Holder.UID == uid {
			mine = append(mine, address)
		}
	}
	return mine
}
