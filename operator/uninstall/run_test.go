// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var api apiserver.Shared

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard()) // clients log nothing that a test would miss
	os.Exit(api.Run(m))
}

// installation is an Alioth of one operator and one node, whose controllers
// and kubelet the test plays.
type installation struct {
	client.Client
	namespace string
	// cleanup is the status of the clean-up on the node.
	cleanup corev1.PodStatus
}

func install(t *testing.T, namespace string, cleanup corev1.PodStatus) *installation {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(api.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{Client: c, namespace: namespace, cleanup: cleanup}
	node := namespace + "-node"
	one := int32(1)
	meta := func(name, component string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{nameLabel: chartName, componentLabel: component}}
	}
	template := func(component string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: meta("", component), Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"test": namespace}, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		}}
	}
	selector := func(component string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{componentLabel: component}}
	}
	pod := func(name, component string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta(name, component), Spec: template(component).Spec}
		p.Spec.NodeName = node
		return p
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"test": namespace}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: v1alpha1.NetworkHealthyCondition, Status: corev1.ConditionFalse},
				{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "AliothIsUp"},
			}},
		},
		&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(node)}, Spec: v1alpha1.RollCallSpec{Call: "c"}},
		&appsv1.Deployment{
			ObjectMeta: meta("alioth-operator-0", componentOperator),
			Spec:       appsv1.DeploymentSpec{Replicas: &one, Selector: selector(componentOperator), Template: template(componentOperator)},
		},
		&appsv1.DaemonSet{
			ObjectMeta: meta(daemonSet, componentDaemon),
			Spec:       appsv1.DaemonSetSpec{Selector: selector(componentDaemon), Template: template(componentDaemon)},
		},
		// Somebody else's, with the component that both have.
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other", Labels: map[string]string{nameLabel: "other", componentLabel: componentOperator}},
			Spec:       appsv1.DeploymentSpec{Replicas: &one, Selector: selector(componentOperator), Template: template(componentOperator)},
		},
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-other", Labels: map[string]string{nameLabel: "other", componentLabel: componentDaemon}},
			Spec:       appsv1.DaemonSetSpec{Selector: selector(componentDaemon), Template: template(componentDaemon)},
		},
		pod("operator", componentOperator), pod("daemon", componentDaemon),
		&v1alpha1.VPC{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{v1alpha1.Finalizer, "example.com/other"}},
			Spec:       v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0/8"}},
		},
		&v1alpha1.Subnet{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{v1alpha1.Finalizer}},
			Spec:       v1alpha1.SubnetSpec{VPC: namespace, CIDRs: []string{"10.0.0.0/8"}},
		},
		&arktosv1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "net", Finalizers: []string{v1alpha1.Finalizer}},
			Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeVPC, VPCID: namespace},
		},
		&danmiov1.DanmNet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "danm", Finalizers: []string{v1alpha1.Finalizer}},
			Spec:       danmv1.NetworkSpec{NetworkID: "danm"},
		},
		&acnv1alpha1.PodNetworkInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pni", Finalizers: []string{v1alpha1.Finalizer}}},
		&v1alpha1.AttachmentClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "2.eth0", Finalizers: []string{v1alpha1.Finalizer}},
			Spec: v1alpha1.AttachmentClaimSpec{
				Pod: v1alpha1.AttachmentPod{Name: "gone", UID: "2"}, Node: node, Interface: "eth0", Driver: "macvlan", ConfigHash: strings.Repeat("a", 64),
				Network: v1alpha1.NetworkReference{Group: "danm.io", Kind: "DanmNet", Namespace: namespace, Name: "danm", UID: "4"},
			},
		},
		&v1alpha1.PolicyIdentity{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyIdentityName(namespace, 4711), Finalizers: []string{v1alpha1.Finalizer}},
			Spec:       v1alpha1.PolicyIdentitySpec{VPC: namespace, Number: 4711, Namespace: namespace},
		},
		in.address("10.0.0.2", v1alpha1.AddressHolder{Kind: v1alpha1.HolderNode, Name: node, UID: "1"}),
		in.address("10.0.0.3", v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: namespace, Name: "gone", UID: "2"}),
		in.outside(),
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
	return in
}

// outside returns an address of a Service outside of every VPC, another one for each
// installation.
func (in *installation) outside() *v1alpha1.ExternalAddress {
	hash := sha256.Sum256([]byte(in.namespace))
	ip := netip.AddrFrom16([16]byte(slices.Concat([]byte{0xfd}, hash[:15])))
	return &v1alpha1.ExternalAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressName(ip)},
		Spec: v1alpha1.ExternalAddressSpec{
			IP: ip.String(), Pool: "edge", Service: v1alpha1.ServiceReference{Namespace: in.namespace, Name: "web", UID: "3"},
		},
	}
}

func (in *installation) address(ip string, holder v1alpha1.AddressHolder) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(in.namespace, netip.MustParseAddr(ip))},
		Spec: v1alpha1.AddressSpec{
			VPC: in.namespace, Subnet: in.namespace, IP: ip, MAC: "02:00:00:00:00:01", Node: in.namespace + "-node",
			Attachment: "eth0", Set: []string{ip}, Holder: holder,
		},
	}
}

// run uninstalls while the test plays controllers and kubelet.
func (in *installation) run(t *testing.T, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() { played <- in.play(ctx) }()
	err := Run(ctx, in.Client, Config{Namespace: in.namespace, Timeout: timeout}, slog.New(slog.DiscardHandler))
	cancel()
	if err := <-played; err != nil {
		t.Fatal(err)
	}
	return err
}

// play does the work of the workload controllers and the kubelet.
func (in *installation) play(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := in.act(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (in *installation) act(ctx context.Context) error {
	var pods corev1.PodList
	if err := in.List(ctx, &pods, client.InNamespace(in.namespace)); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if ended, err := in.ended(ctx, pod); err != nil {
			return err
		} else if ended {
			if err := in.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
			continue
		}
		if pod.Labels[componentLabel] == componentCleanup && pod.Status.Phase == corev1.PodPending && in.cleanup.Phase != "" {
			pod.Status = in.cleanup
			if err := in.Status().Update(ctx, pod); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// ended reports whether a pod's controller would end it.
func (in *installation) ended(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod.DeletionTimestamp != nil {
		return true, nil
	}
	switch pod.Labels[componentLabel] {
	case componentOperator:
		var d appsv1.Deployment
		err := in.Get(ctx, client.ObjectKey{Namespace: in.namespace, Name: "alioth-operator-0"}, &d)
		return err == nil && *d.Spec.Replicas == 0, err
	case componentDaemon:
		var d appsv1.DaemonSet
		err := in.Get(ctx, client.ObjectKey{Namespace: in.namespace, Name: daemonSet}, &d)
		return err == nil && d.Spec.Template.Spec.NodeSelector[retiredSelector] != "", err
	}
	return false, nil
}

// running reports whether operators and daemons are meant to run.
func (in *installation) running(t *testing.T) bool {
	t.Helper()
	var deployment appsv1.Deployment
	var set appsv1.DaemonSet
	errOperator := in.Get(t.Context(), client.ObjectKey{Namespace: in.namespace, Name: "alioth-operator-0"}, &deployment)
	errDaemon := in.Get(t.Context(), client.ObjectKey{Namespace: in.namespace, Name: daemonSet}, &set)
	if errOperator != nil || errDaemon != nil {
		t.Fatal(errOperator, errDaemon)
	}
	_, retired := set.Spec.Template.Spec.NodeSelector[retiredSelector]
	return *deployment.Spec.Replicas == 1 && !retired
}

// held returns the finalizers of this installation's VPC, Subnet, Network, DanmNet,
// PodNetworkInstance and AttachmentClaim, and the number of its addresses.
func (in *installation) held(t *testing.T) (finalizers []string, addresses int) {
	t.Helper()
	for _, object := range []client.Object{
		&v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: in.namespace}},
		&v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: in.namespace}},
		&arktosv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: "net"}},
		&danmiov1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: "danm"}},
		&acnv1alpha1.PodNetworkInstance{ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: "pni"}},
		&v1alpha1.AttachmentClaim{ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: "2.eth0"}},
	} {
		if err := in.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		finalizers = append(finalizers, object.GetFinalizers()...)
	}
	var list v1alpha1.AddressList
	if err := in.List(t.Context(), &list, client.MatchingFields{"spec.vpc": in.namespace}); err != nil {
		t.Fatal(err)
	}
	var outside v1alpha1.ExternalAddressList
	if err := in.List(t.Context(), &outside); err != nil {
		t.Fatal(err)
	}
	addresses = len(list.Items)
	for i := range outside.Items {
		if outside.Items[i].Spec.Service.Namespace == in.namespace {
			addresses++
		}
	}
	return finalizers, addresses
}

// said returns how many roll calls there are, and the types of the node's
// conditions.
func (in *installation) written(t *testing.T) (calls int, conditions []corev1.NodeConditionType) {
	t.Helper()
	var list v1alpha1.RollCallList
	node := &corev1.Node{}
	errList, errGet := in.List(t.Context(), &list), in.Get(t.Context(), client.ObjectKey{Name: in.namespace + "-node"}, node)
	if err := errors.Join(errList, errGet); err != nil {
		t.Fatal(err)
	}
	for _, condition := range node.Status.Conditions {
		conditions = append(conditions, condition.Type)
	}
	return len(list.Items), conditions
}

func TestUninstall_NodesClean_EverythingReleased(t *testing.T) {
	in := install(t, "clean", corev1.PodStatus{Phase: corev1.PodSucceeded})
	if err := in.run(t, time.Minute); err != nil {
		t.Fatal(err)
	}
	finalizers, addresses := in.held(t)
	if len(finalizers) != 1 || finalizers[0] != "example.com/other" || addresses != 0 {
		t.Errorf("finalizers %q and %d addresses are left, want somebody else's finalizer alone", finalizers, addresses)
	}
	if in.running(t) {
		t.Error("operators or daemons would go on")
	}
	var deployment appsv1.Deployment
	var set appsv1.DaemonSet
	errOperator := in.Get(t.Context(), client.ObjectKey{Namespace: in.namespace, Name: "other"}, &deployment)
	errDaemon := in.Get(t.Context(), client.ObjectKey{Namespace: in.namespace, Name: "a-other"}, &set)
	if err := errors.Join(errOperator, errDaemon); err != nil || *deployment.Spec.Replicas != 1 || len(set.Spec.Template.Spec.NodeSelector) != 1 {
		t.Errorf("somebody else's workloads have changed (%v)", err)
	}
	var identities v1alpha1.PolicyIdentityList
	if err := in.List(t.Context(), &identities, client.MatchingFields{"spec.vpc": in.namespace}); err != nil || len(identities.Items) != 0 {
		t.Errorf("%d PolicyIdentities are left (%v)", len(identities.Items), err)
	}
	if calls, conditions := in.written(t); calls != 0 || !slices.Equal(conditions, []corev1.NodeConditionType{corev1.NodeReady}) {
		t.Errorf("%d roll calls are left, and the node's conditions %v; want somebody else's alone", calls, conditions)
	}
	var pods corev1.PodList
	if err := in.List(t.Context(), &pods, client.InNamespace(in.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			t.Errorf("pod %s is left", pod.Name)
		}
	}
	if err := in.run(t, time.Minute); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestUninstall_PodsHaveAddresses_Refused(t *testing.T) {
	in := install(t, "used", corev1.PodStatus{Phase: corev1.PodSucceeded})
	user := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}
	if err := in.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	address := in.address("10.0.0.4", v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: in.namespace, Name: "web", UID: string(user.UID)})
	if err := in.Create(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	err := in.run(t, time.Minute)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "used/web") {
		t.Errorf("got %v, want ErrInUse naming the pod", err)
	}
	if finalizers, addresses := in.held(t); len(finalizers) != 7 || addresses != 4 || !in.running(t) {
		t.Errorf("something changed: finalizers %q, %d addresses, running %t", finalizers, addresses, in.running(t))
	}
	if calls, conditions := in.written(t); calls != 1 || len(conditions) != 3 {
		t.Errorf("something changed: %d roll calls, conditions %v", calls, conditions)
	}
	if err := in.Delete(t.Context(), address); err != nil { // leave the next tests a cluster that is not in use
		t.Fatal(err)
	}
}

func TestUninstall_Fails_EverythingRunsAgain(t *testing.T) {
	failed := corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		Name: componentCleanup, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "maps are busy"}},
	}}}
	for _, tt := range []struct {
		name, namespace string
		cleanup         corev1.PodStatus
		timeout         time.Duration
		want            string
	}{
		{"because a clean-up failed", "failed", failed, time.Minute, "clean the nodes: node failed-node: maps are busy"},
		{"because a node does not answer", "silent", corev1.PodStatus{}, 5 * time.Second, "node silent-node (delete its Node object if it is permanently lost)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := install(t, tt.namespace, tt.cleanup)
			err := in.run(t, tt.timeout)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
			if finalizers, addresses := in.held(t); len(finalizers) != 7 || addresses != 3 || !in.running(t) {
				t.Errorf("not undone: finalizers %q, %d addresses, running %t", finalizers, addresses, in.running(t))
			}
		})
	}
}
