// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// owned returns the annotations that only the operator writes.
func owned() []string {
	return []string{v1alpha1.AttachmentsAnnotation, arktosv1.ReadinessAnnotation, arktosv1.UserInputAnnotation}
}

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
}

// change edits a pod's metadata through a subresource, "" for the object.
func change(name, subresource string, edit func(*corev1.Pod)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		p := new(corev1.Pod)
		if err := c.Get(ctx, client.ObjectKey{Namespace: "pods", Name: name}, p); err != nil {
			return fmt.Errorf("read the pod: %w", err)
		}
		before := p.DeepCopy()
		edit(p)
		patch := client.StrategicMergeFrom(before)
		if subresource == "" {
			return c.Patch(ctx, p, patch, client.DryRunAll)
		}
		return c.SubResource(subresource).Patch(ctx, p, patch, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
	}
}

func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func drop(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { delete(p.Annotations, key); delete(p.Labels, key) }
}

func podsNamespace(t *testing.T) {
	t.Helper()
	admin := start(t)
	err := admin.Create(t.Context(), namespace("pods", nil))
	if client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheOperatorChangesItsAnnotations(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	bound := pod("pods", "annotated", "node-a")
	for _, key := range owned() {
		annotate(key, "restored")(bound)
	}
	// A restored backup carries them: they are no claim to anything.
	create(t, as(t, clusterAdmin()), bound)
	create(t, admin, pod("pods", "blank", "node-a"))

	const refusal = "only the Alioth operator changes the annotations"
	var attempts []attempt
	for _, key := range owned() {
		attempts = append(attempts,
			attempt{key + " set by an administrator", clusterAdmin(), change("blank", "", annotate(key, "forged")), refusal},
			attempt{key + " changed", clusterAdmin(), change("annotated", "", annotate(key, "forged")), refusal},
			attempt{key + " removed", clusterAdmin(), change("annotated", "", drop(key)), refusal},
			attempt{key + " set through the status", clusterAdmin(), change("blank", "status", annotate(key, "forged")), refusal},
			attempt{key + " set by the operator", operator(), change("blank", "status", annotate(key, "true")), ""},
		)
	}
	run(t, append(attempts,
		attempt{"another annotation", clusterAdmin(), change("annotated", "", annotate("note", "x")), ""},
		attempt{"a kubelet's status", kubelet("node-a"), change("annotated", "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), ""},
		attempt{"another ServiceAccount of the operator's name", serviceAccount("system:serviceaccount:pods:alioth-operator", "node-a"), change("blank", "status", annotate(owned()[0], "x")), "cannot"},
	))
}

func TestBindingCarriesNoneOfTheOperatorsAnnotations(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	create(t, admin, pod("pods", "unbound", ""))
	clientset := kubernetes.NewForConfigOrDie(configAs(t, clusterAdmin()))
	binding := func(annotations map[string]string) *corev1.Binding {
		return &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "pods", Name: "unbound", Annotations: annotations},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node-a"},
		}
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	bind := func(annotations map[string]string) func(context.Context, client.Client) error {
		return func(ctx context.Context, _ client.Client) error {
			return clientset.CoreV1().Pods("pods").Bind(ctx, binding(annotations), dryRun)
		}
	}
	// The path that schedulers of old used is still served.
	bindOldWay := func(annotations map[string]string) func(context.Context, client.Client) error {
		return func(ctx context.Context, _ client.Client) error {
			return clientset.CoreV1().RESTClient().Post().Namespace("pods").Resource("bindings").
				VersionedParams(&dryRun, metav1.ParameterCodec).Body(binding(annotations)).Do(ctx).Error()
		}
	}
	const refusal = "a Binding must not carry the annotations"
	var attempts []attempt
	for _, key := range owned() {
		forged := map[string]string{key: "forged"}
		attempts = append(attempts,
			attempt{key, clusterAdmin(), bind(forged), refusal},
			attempt{key + " the old way", clusterAdmin(), bindOldWay(forged), refusal},
		)
	}
	run(t, append(attempts,
		attempt{"another annotation", clusterAdmin(), bind(map[string]string{"note": "x"}), ""},
		attempt{"none", clusterAdmin(), bind(nil), ""},
		attempt{"none, the old way", clusterAdmin(), bindOldWay(nil), ""},
	))
}

func TestPodsNetworkIsFixedOnceItHasANode(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	for name, node := range map[string]string{"fixed": "node-a", "open": ""} {
		p := pod("pods", name, node)
		label(arktosv1.NetworkLabel, "net")(p)
		annotate(arktosv1.NICAnnotation, `{"subnet": "net1"}`)(p)
		create(t, admin, p)
	}
	create(t, admin, pod("pods", "fixed-plain", "node-a"))
	const labelFixed = "the label arktos.futurewei.com/network can't change"
	const nicFixed = "the annotation arktos.futurewei.com/nic can't change"
	run(t, []attempt{
		{"another network", clusterAdmin(), change("fixed", "", label(arktosv1.NetworkLabel, "other")), labelFixed},
		{"no network", clusterAdmin(), change("fixed", "", drop(arktosv1.NetworkLabel)), labelFixed},
		{"a network at last", clusterAdmin(), change("fixed-plain", "", label(arktosv1.NetworkLabel, "net")), labelFixed},
		{"another network through the status", clusterAdmin(), change("fixed", "status", label(arktosv1.NetworkLabel, "other")), labelFixed},
		{"another interface", clusterAdmin(), change("fixed", "", annotate(arktosv1.NICAnnotation, "{}")), nicFixed},
		{"no interface", clusterAdmin(), change("fixed", "", drop(arktosv1.NICAnnotation)), nicFixed},
		{"another interface through the status", clusterAdmin(), change("fixed", "status", annotate(arktosv1.NICAnnotation, "{}")), nicFixed},
		{"another label", clusterAdmin(), change("fixed", "", label("team", "x")), ""},
		{"another network before it has a node", clusterAdmin(), change("open", "", label(arktosv1.NetworkLabel, "other")), ""},
		{"another interface before it has a node", clusterAdmin(), change("open", "", annotate(arktosv1.NICAnnotation, "{}")), ""},
	})
}

func TestProbesAndHooksGoToThePodItself(t *testing.T) {
	podsNamespace(t)
	web := func(host string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(80)}
	}
	probe := func(host string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: web(host)}}
	}
	knock := &corev1.TCPSocketAction{Host: "10.10.1.2", Port: intstr.FromInt32(80)}
	submit := func(edit func(*corev1.PodSpec)) func(context.Context, client.Client) error {
		p := pod("pods", "probed", "")
		edit(&p.Spec)
		return func(ctx context.Context, c client.Client) error { return c.Create(ctx, p.DeepCopy(), client.DryRunAll) }
	}
	const probes, hooks = "a probe must not set httpGet.host", "a life-cycle hook must not set httpGet.host"
	always := corev1.ContainerRestartPolicyAlways
	run(t, []attempt{
		{"liveness", clusterAdmin(), submit(func(s *corev1.PodSpec) { s.Containers[0].LivenessProbe = probe("10.10.1.2") }), probes},
		{"readiness", clusterAdmin(), submit(func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe = probe("10.10.1.2") }), probes},
		{"startup", clusterAdmin(), submit(func(s *corev1.PodSpec) {
			s.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: knock}}
		}), probes},
		{"a sidecar", clusterAdmin(), submit(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{
				Name: "side", Image: "example.com/none", RestartPolicy: &always, ReadinessProbe: probe("10.10.1.2"),
			}}
		}), probes},
		{"postStart", clusterAdmin(), submit(func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: web("10.10.1.2")}}
		}), hooks},
		{"preStop", clusterAdmin(), submit(func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: web("10.10.1.2")}}
		}), hooks},
		{"the pod itself", clusterAdmin(), submit(func(s *corev1.PodSpec) {
			s.Containers[0].ReadinessProbe = probe("")
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: web("")}}
		}), ""},
		{"no probe", clusterAdmin(), submit(func(*corev1.PodSpec) {}), ""},
		{"a pod of the host", clusterAdmin(), submit(func(s *corev1.PodSpec) {
			s.HostNetwork = true
			s.Containers[0].LivenessProbe = probe("127.0.0.1")
		}), ""},
	})
}
