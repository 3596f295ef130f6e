// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds/core"
)

// The pod has everything that a row is made of, and more.
func fullPod() *corev1.Pod {
	controls, hook := true, &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("web")}}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "p", UID: "u", ResourceVersion: "7", Generation: 2,
			Labels: map[string]string{arktosv1.NetworkLabel: "n"},
			Annotations: map[string]string{
				arktosv1.NICAnnotation: `{"name": "eth0"}`, arktosv1.ReadinessAnnotation: "true", v1alpha1.AttachmentsAnnotation: "[]",
			},
			OwnerReferences: []metav1.OwnerReference{{UID: "owner", Controller: &controls}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1",
			Volumes:  []corev1.Volume{{Name: "data"}},
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/main", Env: []corev1.EnvVar{{Name: "A"}},
				Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), "vendor.example/fast": resource.MustParse("2"), "requests.vendor.example/x": resource.MustParse("3"),
				}},
				LivenessProbe: probe, Lifecycle: &corev1.Lifecycle{PreStop: hook},
			}},
		},
		Status: corev1.PodStatus{
			Phase:             corev1.PodSucceeded,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main"}},
			Conditions:        []corev1.PodCondition{{Type: v1alpha1.NetworkReadyCondition, Reason: "R", Message: "M"}},
		},
	}
}

func TestTrimmingAPodLosesNothingThatItsRowIsMadeOf(t *testing.T) {
	want, err := core.Pod.Convert(fullPod())
	if err != nil {
		t.Fatal(err)
	}
	pod := fullPod()
	if _, err := Trim(pod); err != nil {
		t.Fatal(err)
	}
	got, err := core.Pod.Convert(pod)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-whole +trimmed):\n%s", diff)
	}
	if !want.NetworkProbes || !want.NetworkHooks || want.OwnerUID != "owner" || want.Reason != "R" || !want.Terminal {
		t.Errorf("the row %+v shows too little for this test", want)
	}
	if len(pod.ManagedFields) > 0 || len(pod.Spec.Volumes) > 0 || len(pod.Spec.Containers[0].Env) > 0 || len(pod.Status.ContainerStatuses) > 0 {
		t.Errorf("left untrimmed: %+v", pod)
	}
	host := fullPod()
	host.Spec.HostNetwork = true
	if _, err := Trim(host); err != nil || !host.Spec.HostNetwork {
		t.Errorf("a pod of the host network is no longer one, error %v", err)
	}
}

func TestTrimmingANodeLosesNothingThatItsRowIsMadeOf(t *testing.T) {
	whole := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}, ProviderID: "x"},
			Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
				Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				},
				Images: []corev1.ContainerImage{{Names: []string{"example.com/big"}}},
			},
		}
	}
	want, err := core.Node.Convert(whole())
	if err != nil {
		t.Fatal(err)
	}
	node := whole()
	if _, err := Trim(node); err != nil {
		t.Fatal(err)
	}
	got, err := core.Node.Convert(node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || !want.OutOfService || !want.Ready || len(want.Addresses) != 1 {
		t.Errorf("row (-whole +trimmed):\n%s", diff)
	}
	if len(node.Status.Images) > 0 {
		t.Error("the list of images is left")
	}
}
