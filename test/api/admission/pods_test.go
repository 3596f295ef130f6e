// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
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

func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func drop(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { delete(p.Annotations, key); delete(p.Labels, key) }
}

// podsNamespace makes the namespace where pods are tried, with one user who may edit it, and one
// who is its administrator.
func podsNamespace(t *testing.T) {
	t.Helper()
	admin := start(t)
	err := admin.Create(t.Context(), namespace("pods", nil))
	if apierrors.IsAlreadyExists(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	grantIn(t, admin, "pods", podsEditor(), "edit")
	grantIn(t, admin, "pods", podsAdmin(), "admin")
}

func podsEditor() user { return person("pods-editor") }

func podsAdmin() user { return person("pods-admin") }

// fixedKeys tries every change of a label or annotation of a bound pod, by every user who may write
// pods, through every resource that carries metadata. with has the key, without has not; put sets
// it.
func fixedKeys(key, with, without, refusal string, put func(key, value string) func(*corev1.Pod)) []change[*corev1.Pod] {
	const namespace = "pods"
	var all []change[*corev1.Pod]
	for who, u := range map[string]user{"an editor": podsEditor(), "an admin": podsAdmin(), "a cluster administrator": clusterAdmin()} {
		all = append(all,
			change[*corev1.Pod]{name: key + " set by " + who, who: u, object: pod(namespace, without, ""), edit: put(key, "forged"), refused: refusal},
			change[*corev1.Pod]{name: key + " changed by " + who, who: u, object: pod(namespace, with, ""), edit: put(key, "forged"), refused: refusal},
			change[*corev1.Pod]{name: key + " removed by " + who, who: u, object: pod(namespace, with, ""), edit: drop(key), refused: refusal},
		)
	}
	return append(
		all,
		change[*corev1.Pod]{
			name:    key + " set through the status",
			who:     clusterAdmin(),
			object:  pod(namespace, without, ""),
			through: "status",
			edit:    put(key, "forged"),
			refused: refusal,
		},
		change[*corev1.Pod]{
			name:    key + " changed through the status",
			who:     clusterAdmin(),
			object:  pod(namespace, with, ""),
			through: "status",
			edit:    put(key, "forged"),
			refused: refusal,
		},
		// The writer of a status owns no field that was applied to the object.
		change[*corev1.Pod]{
			name:    key + " removed through the status",
			who:     clusterAdmin(),
			object:  pod(namespace, with, ""),
			through: "status",
			edit:    drop(key),
			refused: refusal,
			except:  byApply,
		},
		change[*corev1.Pod]{
			name:    key + " set through the status by an admin",
			who:     podsAdmin(),
			object:  pod(namespace, without, ""),
			through: "status",
			edit:    put(key, "forged"),
			refused: `resource "pods/status"`,
		},
		change[*corev1.Pod]{
			name:    key + " set by a kubelet",
			who:     kubelet(),
			object:  pod(namespace, without, ""),
			through: "status",
			edit:    put(key, "forged"),
			refused: "forbidden",
			except:  byUpdate,
		},
	)
}

func TestOperatorAnnotations_OtherWriter_Refused(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	bound := pod("pods", "annotated", "node-a")
	for _, key := range owned() {
		annotate(key, "restored")(bound)
	}
	establish(t, admin, bound)
	establish(t, admin, pod("pods", "blank", "node-a"))

	const refusal = "only the Alioth operator changes the annotations"
	var changes []change[*corev1.Pod]
	for _, key := range owned() {
		changes = append(changes, fixedKeys(key, "annotated", "blank", refusal, annotate)...)
		changes = append(
			changes,
			change[*corev1.Pod]{
				name:    key + " set by the operator",
				who:     operator(),
				object:  pod("pods", "blank", ""),
				through: "status",
				edit:    annotate(key, "true"),
				except:  byUpdate,
			},
			change[*corev1.Pod]{
				name:    key + " set by the operator past the status",
				who:     operator(),
				object:  pod("pods", "blank", ""),
				edit:    annotate(key, "true"),
				refused: "cannot",
			},
			change[*corev1.Pod]{
				name:    key + " set by a daemon",
				who:     daemonOn("node-a"),
				object:  pod("pods", "blank", ""),
				through: "status",
				edit:    annotate(key, "true"),
				refused: "denied request",
				except:  byUpdate,
			},
		)
	}
	runChanges(t, append(
		changes,
		change[*corev1.Pod]{name: "another annotation", who: podsEditor(), object: pod("pods", "annotated", ""), edit: annotate("note", "x")},
		change[*corev1.Pod]{
			name:    "a kubelet's status",
			who:     kubelet(),
			object:  pod("pods", "annotated", ""),
			through: "status",
			edit:    func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
		},
		change[*corev1.Pod]{
			name:    "another ServiceAccount of the operator's name",
			who:     serviceAccount("system:serviceaccount:pods:alioth-operator", "node-a"),
			object:  pod("pods", "blank", ""),
			through: "status",
			edit:    annotate(owned()[0], "x"),
			refused: "cannot",
		},
	))
}

// say gives a pod a condition, or removes it without a status.
func say(kind string, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return string(c.Type) == kind })
		if status != "" {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(kind), Status: status, Reason: v1alpha1.AttachedReason})
		}
	}
}

// TestPodConditions_WriterNotOperator_Refused: neither an administrator, nor a controller of
// readiness gates with rights on pods/status, nor a kubelet.
func TestPodConditions_WriterNotOperator_Refused(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	gates := serviceAccount("system:serviceaccount:pods:gates", "")
	grantRules(
		t,
		admin,
		gates,
		"gates",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Verbs: []string{"get", "update", "patch"}},
	)
	for name, permitted := range map[string]bool{"told": true, "untold": false} {
		p := pod("pods", name, "node-a")
		establish(t, admin, p)
		status := p.DeepCopy()
		say("example.com/gate", corev1.ConditionFalse)(status)
		if permitted {
			say(v1alpha1.NetworkReadyCondition, corev1.ConditionFalse)(status)
		}
		if err := as(t, operator()).Status().Patch(t.Context(), status, client.MergeFrom(p)); err != nil {
			t.Fatal(err)
		}
	}
	const refusal = "only the Alioth operator changes conditions alioth.dev/* of pods"
	var changes []change[*corev1.Pod]
	for who, u := range map[string]user{"a cluster administrator": clusterAdmin(), "a controller of gates": gates, "a kubelet": kubelet()} {
		mine := func(name, what string, edit func(*corev1.Pod), refused string) change[*corev1.Pod] {
			return change[*corev1.Pod]{
				name:    what + " by " + who,
				who:     u,
				object:  pod("pods", name, ""),
				through: "status",
				edit:    edit,
				refused: refused,
				except:  byApply,
			}
		}
		removed := mine("told", "removed", say(v1alpha1.NetworkReadyCondition, ""), refusal)
		removed.except = byPatch // a strategic merge patch lists the elements that stay
		changes = append(changes,
			mine("untold", "set", say(v1alpha1.NetworkReadyCondition, corev1.ConditionTrue), refusal),
			mine("untold", "another one set", say("alioth.dev/Anything", corev1.ConditionTrue), refusal),
			mine("told", "changed", say(v1alpha1.NetworkReadyCondition, corev1.ConditionTrue), refusal),
			removed,
			mine("told", "a readiness gate opened", say("example.com/gate", corev1.ConditionTrue), ""),
			mine("told", "Ready", say(string(corev1.PodReady), corev1.ConditionTrue), ""),
			mine("told", "the phase changed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, ""),
		)
	}
	runChanges(t, append(
		changes,
		change[*corev1.Pod]{
			name:    "applied",
			who:     clusterAdmin(),
			object:  pod("pods", "untold", ""),
			through: "status",
			edit:    say(v1alpha1.NetworkReadyCondition, corev1.ConditionTrue),
			refused: refusal,
		},
		change[*corev1.Pod]{
			name:    "by the operator",
			who:     operator(),
			object:  pod("pods", "untold", ""),
			through: "status",
			edit:    say(v1alpha1.NetworkReadyCondition, corev1.ConditionTrue),
			except:  byUpdate,
		},
	))
}

// TestOtherSubresources_PodConditions_Ignored: the API server takes from them only the fields that
// they are for.
func TestOtherSubresources_PodConditions_Ignored(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	establish(t, admin, pod("pods", "conditionless", "node-a"))
	for _, subresource := range []string{"", "ephemeralcontainers", "resize"} {
		after := pod("pods", "conditionless", "")
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(after), after); err != nil {
			t.Fatal(err)
		}
		say(v1alpha1.NetworkReadyCondition, corev1.ConditionTrue)(after)
		if err := (target{admin, subresource}).update(t.Context(), after); err != nil {
			t.Fatalf("%q: refused: %v", subresource, err)
		}
		if len(after.Status.Conditions) > 0 {
			t.Errorf("%q: the pod has conditions %v", subresource, after.Status.Conditions)
		}
	}
}

// TestRestoredPod_OperatorAnnotations_Accepted: they claim nothing, and the operator overwrites
// them.
func TestRestoredPod_OperatorAnnotations_Accepted(t *testing.T) {
	podsNamespace(t)
	restored := pod("pods", "restored", "")
	for _, key := range owned() {
		annotate(key, "restored")(restored)
	}
	var all []attempt
	for who, u := range map[string]user{"an editor": podsEditor(), "an admin": podsAdmin(), "a cluster administrator": clusterAdmin()} {
		all = append(all, creations(t, "by "+who, u, restored, "")...)
	}
	run(t, all)
}

// TestOtherSubresources_PodMetadata_Ignored: the API server takes from them only the fields that
// they are for, from any user.
func TestOtherSubresources_PodMetadata_Ignored(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	establish(t, admin, pod("pods", "narrow", "node-a"))
	for _, subresource := range []string{"ephemeralcontainers", "resize"} {
		forge := change[*corev1.Pod]{name: subresource, who: clusterAdmin(), object: pod("pods", "narrow", ""), through: subresource}
		forge.edit = func(p *corev1.Pod) {
			annotate(v1alpha1.AttachmentsAnnotation, "forged")(p)
			annotate(arktosv1.NICAnnotation, "{}")(p)
			label(arktosv1.NetworkLabel, "forged")(p)
		}
		kind := corev1.SchemeGroupVersion.WithKind("Pod")
		for _, way := range waysOf(forge.object, subresource) {
			t.Run(subresource+", "+way.name, func(t *testing.T) {
				c := as(t, clusterAdmin())
				before := pod("pods", "narrow", "")
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil {
					t.Fatal(err)
				}
				before.SetGroupVersionKind(kind)
				after := before.DeepCopy()
				forge.edit(after)
				if err := way.send(t.Context(), target{c, subresource}, before, after); err != nil {
					t.Fatalf("refused: %v", err)
				}
				if len(after.Annotations) != 0 || len(after.Labels) != 0 {
					t.Errorf("the pod has annotations %v and labels %v", after.Annotations, after.Labels)
				}
			})
		}
	}
}

func TestBinding_OperatorAnnotations_Refused(t *testing.T) {
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

func TestPodNetwork_ChangeAfterNodeAssigned_Refused(t *testing.T) {
	admin := start(t)
	podsNamespace(t)
	for name, node := range map[string]string{"fixed": "node-a", "open": ""} {
		p := pod("pods", name, node)
		label(arktosv1.NetworkLabel, "net")(p)
		annotate(arktosv1.NICAnnotation, `{"subnet": "net1"}`)(p)
		annotate(annotations.InterfacesKey, `[{"network": "internal"}]`)(p)
		annotate(annotations.InterfacesKeyIO, `[{"network": "internal"}]`)(p)
		annotate(annotations.NetworksKey, "internal")(p)
		annotate(annotations.DefaultNetworkKey, "internal")(p)
		establish(t, admin, p)
	}
	establish(t, admin, pod("pods", "fixed-plain", "node-a"))
	changes := fixedKeys(arktosv1.NetworkLabel, "fixed", "fixed-plain", "the label arktos.futurewei.com/network can't change", label)
	keys := []string{
		arktosv1.NICAnnotation, annotations.InterfacesKey, annotations.InterfacesKeyIO,
		annotations.NetworksKey, annotations.DefaultNetworkKey,
	}
	for _, key := range keys {
		changes = append(changes, fixedKeys(key, "fixed", "fixed-plain", "the annotation "+key+" can't change", annotate)...)
		changes = append(changes,
			change[*corev1.Pod]{name: "another " + key + " before it has a node", who: podsEditor(), object: pod("pods", "open", ""), edit: annotate(key, "{}")},
			change[*corev1.Pod]{name: "no " + key + " before it has a node", who: podsEditor(), object: pod("pods", "open", ""), edit: drop(key)},
		)
	}
	runChanges(t, append(
		changes,
		change[*corev1.Pod]{name: "another label", who: podsEditor(), object: pod("pods", "fixed", ""), edit: label("team", "x")},
		change[*corev1.Pod]{
			name:   "another network before it has a node",
			who:    podsEditor(),
			object: pod("pods", "open", ""),
			edit:   label(arktosv1.NetworkLabel, "other"),
		},
		change[*corev1.Pod]{
			name: "the key of the other group instead", who: podsEditor(), object: pod("pods", "fixed", ""), refused: "the annotation danm.k8s.io/interfaces can't change",
			edit: drop(annotations.InterfacesKey),
		},
	))
}

func TestProbesAndHooks_OtherHost_Refused(t *testing.T) {
	podsNamespace(t)
	web := func(host string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(80)}
	}
	probe := func(host string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: web(host)}}
	}
	knock := &corev1.TCPSocketAction{Host: "10.10.1.2", Port: intstr.FromInt32(80)}
	submit := func(edit func(*corev1.PodSpec)) *corev1.Pod {
		p := pod("pods", "probed", "")
		edit(&p.Spec)
		return p
	}
	const probes, hooks = "a probe must not set httpGet.host", "a life-cycle hook must not set httpGet.host"
	always := corev1.ContainerRestartPolicyAlways
	var all []attempt
	for _, c := range []struct {
		name    string
		who     user
		object  *corev1.Pod
		refused string
	}{
		{"liveness", clusterAdmin(), submit(func(s *corev1.PodSpec) { s.Containers[0].LivenessProbe = probe("10.10.1.2") }), probes},
		{"readiness", podsEditor(), submit(func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe = probe("10.10.1.2") }), probes},
		{"startup", podsAdmin(), submit(func(s *corev1.PodSpec) {
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
		{"preStop", podsEditor(), submit(func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: web("10.10.1.2")}}
		}), hooks},
		{"the pod itself", podsEditor(), submit(func(s *corev1.PodSpec) {
			s.Containers[0].ReadinessProbe = probe("")
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: web("")}}
		}), ""},
		{"no probe", clusterAdmin(), submit(func(*corev1.PodSpec) {}), ""},
		{"a pod of the host", clusterAdmin(), submit(func(s *corev1.PodSpec) {
			s.HostNetwork = true
			s.Containers[0].LivenessProbe = probe("127.0.0.1")
		}), ""},
	} {
		all = append(all, creations(t, c.name, c.who, c.object, c.refused)...)
	}
	run(t, all)
}
