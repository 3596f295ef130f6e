// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/needs"
)

const instancesCRD = "podnetworkinstances.multitenancy.acn.azure.com"

// withoutOwnFields takes the fields of Alioth's own, and all rules, out of a CRD: so it is as
// another installation brings it.
func withoutOwnFields(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		schema := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		schema.XValidations = nil
		for _, name := range []string{"reservations", "conditions"} {
			delete(schema.Properties["status"].Properties, name)
		}
	}
}

// TestInstance_ForeignCRD_ServedWithoutReservations keeps the CRD of another installation. An instance without
// reservations works. An instance with a reservation reports the fault, once, and its pod does too.
// When the CRD is Alioth's, it becomes Ready.
func TestInstance_ForeignCRD_ServedWithoutReservations(t *testing.T) {
	needs.Kubernetes(t)
	own, err := apiserver.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	r := adopts(t, own)
	var today apiextensionsv1.CustomResourceDefinitionSpec
	r.changeCRDs(func(crd *apiextensionsv1.CustomResourceDefinition) {
		if crd.Name == instancesCRD {
			today = *crd.Spec.DeepCopy()
			withoutOwnFields(crd)
		}
	})
	node := newNode("foreign-node")
	node.Labels = map[string]string{multitenancyv1alpha1.NodeLabel: "true"}
	network := podNetworkOf("foreign", 64)
	network.Spec.NetworkID = "foreign"
	r.create(
		node,
		network,
		newVPC("foreign", []string{"*"}, "10.0.0.0/16"),
		newSubnet("foreign-net2", "foreign", "net2", "10.0.2.0/29"),
		newSubnet("foreign-infra", "foreign", "infra", "10.0.3.0/24"),
	)
	free, reserving := foreignInstance("free", 0), foreignInstance("reserving", 1)
	r.create(free)
	r.eventually(func() error { // a trial shows that the foreign CRD is in force
		trial := free.DeepCopy()
		trial.Status.Reservations = []multitenancyv1alpha1.Reservation{{PodNetwork: "trial", NetworkID: "trial"}}
		if err := r.Status().Patch(t.Context(), trial, client.MergeFrom(free), client.DryRunAll); err != nil || len(trial.Status.Reservations) > 0 {
			return fmt.Errorf("the API server keeps %v, error %w", trial.Status.Reservations, err)
		}
		return nil
	})
	r.create(reserving)
	cfg := testConfig()
	cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, "foreign-infra"
	r.operate(cfg)
	sees(r, free, instanceIs(multitenancyv1alpha1.InstanceReady))
	sees(r, reserving, instanceIs(multitenancyv1alpha1.InstanceReservationError))
	if len(reserving.Status.PodIPAddresses) > 0 {
		t.Errorf("addresses are reserved that a successor would give away: %v", reserving.Status.PodIPAddresses)
	}
	pod := newPod("adopted", "waits", "", "")
	pod.Labels = map[string]string{multitenancyv1alpha1.PodNetworkInstanceLabel: "reserving"}
	r.schedule(pod, node.Name)
	sees(r, pod, func(pod *corev1.Pod) error {
		if err := hasReason(v1alpha1.PodNetworkInstanceNotReadyReason)(pod); err != nil || !strings.Contains(fmt.Sprint(pod.Status.Conditions), instancesCRD) {
			return fmt.Errorf("the pod is told %+v, %w", pod.Status.Conditions, err)
		}
		return nil
	})
	r.announcedOnce(reserving, v1alpha1.ForeignDefinitionReason)

	r.changeCRDs(func(crd *apiextensionsv1.CustomResourceDefinition) {
		if crd.Name == instancesCRD {
			crd.Spec = today
		}
	})
	r.eventually(func() error { // each event of the object is a reason to try again
		touched := reserving.DeepCopy()
		metav1.SetMetaDataAnnotation(&touched.ObjectMeta, "touched", fmt.Sprint(touched.ResourceVersion))
		if err := r.Patch(t.Context(), touched, client.MergeFrom(reserving)); err != nil {
			return err
		}
		if err := r.Get(t.Context(), client.ObjectKeyFromObject(reserving), reserving); err != nil {
			return err
		}
		return instanceHas(multitenancyv1alpha1.InstanceReady, v1alpha1.ReadyReason, 1)(reserving)
	})
	r.announcedOnce(reserving, v1alpha1.ForeignDefinitionReason) // however often it was tried
}

func foreignInstance(name string, size int32) *multitenancyv1alpha1.PodNetworkInstance {
	one := instanceOf(name, size)
	one.Namespace, one.Spec.PodNetworkConfigs[0].PodNetwork = "adopted", "foreign"
	return one
}

func instanceIs(state multitenancyv1alpha1.InstanceState) func(*multitenancyv1alpha1.PodNetworkInstance) error {
	return func(i *multitenancyv1alpha1.PodNetworkInstance) error {
		if i.Status.Status != state {
			return fmt.Errorf("PodNetworkInstance %s is %+v, want %s", i.Name, i.Status, state)
		}
		return nil
	}
}

// announcedOnce waits until an event of an object has a reason, and refuses a second one.
func (r *rig) announcedOnce(object client.Object, reason string) {
	r.t.Helper()
	r.eventually(func() error {
		var list corev1.EventList
		if err := r.List(r.t.Context(), &list); err != nil {
			return err
		}
		count := 0
		for _, event := range list.Items {
			if event.InvolvedObject.UID == object.GetUID() && event.Reason == reason {
				count++
				if event.Series != nil {
					count += int(event.Series.Count)
				}
			}
		}
		if count != 1 {
			return fmt.Errorf("%d events with the reason %s", count, reason)
		}
		return nil
	})
}
