// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/waits"
)

// asOperator is the environment variable that makes the test binary the
// operator.
const asOperator = "ALIOTH_TEST_AS_OPERATOR"

// termsMetric counts how often an operator stood up.
const termsMetric = "alioth_operator_terms_total"

// within bounds every wait; a busy machine must not fail a test.
const within = time.Minute

var server apiserver.Shared

func TestMain(m *testing.M) {
	if os.Getenv(asLoad) != "" {
		spin()
	}
	if os.Getenv(asOperator) != "" {
		main()
		return
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctrllog.SetLogger(logr.Discard())
	os.Exit(server.Run(m))
}

// world is the API server with a tenant of its own for each test, named after
// it.
type world struct {
	t *testing.T
	client.Client
	config *rest.Config
	name   string
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, arktosv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, config: server.Config(t), name: name}
	c, err := client.New(w.config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.Client = c
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if err := c.Create(t.Context(), node); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	named := metav1.ObjectMeta{Name: name}
	w.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: name}}},
		&v1alpha1.VPC{ObjectMeta: named, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0/16"}, AllowedTenants: []string{name}}},
		// Larger than all pods of a soak: an address is kept while the node of its pod exists.
		&v1alpha1.Subnet{ObjectMeta: named, Spec: v1alpha1.SubnetSpec{VPC: name, CIDRs: []string{"10.0.4.0/22"}}},
		&arktosv1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: arktosv1.DefaultNetwork},
			Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: name},
		},
	)
	return w
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.Create(w.t.Context(), object); err != nil {
			w.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// schedule creates a pod and binds it, with the nic annotation unless it is "".
func (w *world) schedule(name, nic string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool), NodeName: "node-1",
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	if nic != "" {
		pod.Annotations = map[string]string{arktosv1.NICAnnotation: nic}
	}
	w.create(pod)
	return pod
}

// eventually tries check until it returns nil.
func (w *world) eventually(check func() error) {
	w.t.Helper()
	waits.Until(w.t, within, "a check passes", check)
}

// told makes a check of a pod's condition.
func (w *world) reported(pod *corev1.Pod, reason string) func() error {
	return func() error {
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1alpha1.NetworkReadyCondition && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("pod %s was not told %s: %+v", pod.Name, reason, pod.Status.Conditions)
	}
}

// rival takes the lease as soon as it is free, and does nothing with it until
// it gives it back.
func (w *world) rival() (took <-chan struct{}, giveBack func()) {
	w.t.Helper()
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, w.name, "alioth-operator",
		resourcelock.ResourceLockConfig{Identity: "rival"}, w.config, within)
	if err != nil {
		w.t.Fatal(err)
	}
	leading, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 2 * within, RenewDeadline: within, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	giveBack = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(giveBack)
	return leading, giveBack
}

func TestLeader_StoppedPastLease_WritesNothing(t *testing.T) {
	w := newWorld(t, "stopped")
	r := startReplica(t, w.config, w.name)
	first := w.schedule("first", "")
	w.eventually(w.reported(first, v1alpha1.AttachedReason))
	w.eventually(r.ready)

	terms, err := r.metric(termsMetric)
	if err != nil {
		t.Fatal(err)
	}
	r.signal(syscall.SIGSTOP)
	taken, giveBack := w.rival()
	waits.Receive(t, within, "another process gets the lease", taken)
	second := w.schedule("second", "")
	sent := len(r.gateway.since(0))
	r.signal(syscall.SIGCONT)
	w.eventually(func() error {
		now, err := r.metric(termsMetric)
		if err == nil && now == terms {
			err = errors.New("the term goes on")
		}
		return err
	})
	w.eventually(r.ready)
	for _, request := range r.gateway.since(sent) {
		if request.write() && !request.lease() {
			t.Errorf("without the lease: %s %s", request.method, request.path)
		}
	}

	giveBack()
	w.eventually(w.reported(second, v1alpha1.AttachedReason))
	w.eventually(r.leads)
}

func TestStandby_LeaderKilledOrEnds_TakesOver(t *testing.T) {
	w := newWorld(t, "killed")
	replicas := []*replica{startReplica(t, w.config, w.name), startReplica(t, w.config, w.name)}
	for i, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		for _, r := range replicas {
			w.eventually(r.ready)
		}
		leader, other := w.leader(replicas[0], replicas[1])
		began := time.Now()
		leader.signal(end)
		pod := w.schedule(fmt.Sprintf("after-%d", i), "")
		w.eventually(w.reported(pod, v1alpha1.AttachedReason))
		t.Logf("%.1f s from %s to a pod's addresses from the other replica", time.Since(began).Seconds(), end)
		<-leader.ended
		if end == syscall.SIGTERM && leader.status != nil {
			t.Errorf("told to end, it ended with %v", leader.status)
		}
		w.eventually(other.leads)
		replicas = []*replica{other, startReplica(t, w.config, w.name)}
	}
}

// leader waits until one of two replicas leads, and returns it first.
func (w *world) leader(a, b *replica) (leader, other *replica) {
	w.t.Helper()
	w.eventually(func() error {
		if leader, other = a, b; b.leads() == nil {
			leader, other = b, a
		}
		return leader.leads()
	})
	return leader, other
}

func TestReplicas_APIServerOutage_Survive(t *testing.T) {
	w := newWorld(t, "outage")
	a := startReplica(t, w.config, w.name)
	w.eventually(a.leads)
	b := startReplica(t, w.config, w.name)
	w.eventually(b.ready)
	before := w.schedule("before", "")
	w.eventually(w.reported(before, v1alpha1.AttachedReason))

	server.Server(t).Interrupt()
	w.eventually(a.is("alioth_operator_leader", 0)) // its lease ran out
	if err := server.Server(t).Resume(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	after := w.schedule("after", "")
	w.eventually(w.reported(after, v1alpha1.AttachedReason))
	for _, r := range []*replica{a, b} {
		w.eventually(r.ready)
	}
	w.eventually(func() error {
		if (a.leads() == nil) == (b.leads() == nil) {
			return errors.New("not one of the replicas leads alone")
		}
		return nil
	})
}

// refusals makes one object of each kind that can't have its wish.
func (w *world) refusals() {
	w.t.Helper()
	named := metav1.ObjectMeta{Name: w.name + "-refused"}
	vpc := &v1alpha1.VPC{ObjectMeta: named, Spec: v1alpha1.VPCSpec{CIDRs: []string{apiserver.ServiceCIDR4}}}
	subnet := &v1alpha1.Subnet{ObjectMeta: named, Spec: v1alpha1.SubnetSpec{VPC: w.name, CIDRs: []string{"10.99.1.0/24"}}}
	network := &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "refused"},
		Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: "no-such"},
	}
	w.create(vpc, subnet, network)
	pod := w.schedule("refused", `{"ip": "10.0.4.1"}`)
	w.eventually(w.reported(pod, v1alpha1.IPReservedReason))
	for object, conditions := range map[client.Object]*[]metav1.Condition{
		vpc: &vpc.Status.Conditions, subnet: &subnet.Status.Conditions, network: &network.Status.Conditions,
	} {
		w.eventually(func() error {
			if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if !meta.IsStatusConditionFalse(*conditions, v1alpha1.ReadyCondition) {
				return fmt.Errorf("%T %s is not refused", object, object.GetName())
			}
			return nil
		})
	}
}

// renewals is over how many renewals of the lease, two per second, idle operators are watched.
const renewals = 5

// idle returns an error unless the last requests, over the wanted number of renewals of the lease,
// were about the lease alone or began a watch.
func idle(requests []request) error {
	renewed := 0
	for i := len(requests) - 1; i >= 0 && renewed < renewals; i-- {
		switch r := requests[i]; {
		case r.lease():
			renewed++
		case !r.watch():
			return fmt.Errorf("%d requests ago: %s %s?%s", len(requests)-i, r.method, r.path, r.query)
		}
	}
	if renewed < renewals {
		return fmt.Errorf("%d requests about the lease, want %d", renewed, renewals)
	}
	return nil
}

// TestReplica_Start_ListsPresentState: neither with streams, which cost the API server twice as
// much, nor with lists that may be old.
func TestReplica_Start_ListsPresentState(t *testing.T) {
	w := newWorld(t, "lists")
	r := startReplica(t, w.config, w.name)
	w.eventually(r.ready)
	lists := 0
	for _, request := range r.gateway.since(0) {
		query, err := url.ParseQuery(request.query)
		if err != nil {
			t.Fatal(err)
		}
		if query.Has("sendInitialEvents") || query.Get("resourceVersion") == "0" || query.Has("limit") {
			t.Errorf("%s %s?%s", request.method, request.path, request.query)
		}
		if strings.HasSuffix(request.path, "/addresses") && !request.watch() {
			lists++
		}
	}
	if lists != 1 {
		t.Errorf("Addresses are listed %d times", lists)
	}
}

// silent waits until a replica that stands by has begun only watches, while the leader renews its
// lease as often as idle has it.
func (w *world) silent(leader, standby *replica) {
	w.t.Helper()
	mine, its := len(standby.gateway.since(0)), len(leader.gateway.since(0))
	w.eventually(func() error {
		for _, r := range standby.gateway.since(mine) {
			if !r.watch() {
				mine, its = len(standby.gateway.since(0)), len(leader.gateway.since(0))
				return fmt.Errorf("the replica that stands by: %s %s?%s", r.method, r.path, r.query)
			}
		}
		return idle(leader.gateway.since(its))
	})
}

func TestReplicas_Idle_OnlyLeaseRequested(t *testing.T) {
	w := newWorld(t, "idle")
	leader := startReplica(t, w.config, w.name)
	w.eventually(leader.leads)
	standby := startReplica(t, w.config, w.name)
	w.eventually(standby.ready)
	pod := w.schedule("served", "")
	w.eventually(w.reported(pod, v1alpha1.AttachedReason))
	w.refusals()
	w.eventually(func() error { return idle(leader.gateway.since(0)) })
	w.silent(leader, standby)
	if terms, err := leader.metric(termsMetric); err != nil || terms > 1 {
		t.Skipf("the machine is too busy for one leader to last: %g terms, error %v", terms, err)
	}
	for _, request := range standby.gateway.since(0) {
		if request.write() && !request.lease() {
			t.Errorf("the replica that stands by: %s %s", request.method, request.path)
		}
	}
}
