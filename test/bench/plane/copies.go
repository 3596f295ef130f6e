// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// AsOperator returns a client with the operator's rights.
func (c *Plane) AsOperator() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the operator's kubeconfig: %w", err)
	}
	config.QPS = -1
	writer, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return writer, nil
}

// AddressLike returns an Address for a pod of another VPC, as the operator would make it after the
// model's Address. VPC, subnet and namespace of each have one name.
func AddressLike(model *v1alpha1.Address, pod *corev1.Pod) *v1alpha1.Address {
	address := &v1alpha1.Address{Spec: *model.Spec.DeepCopy()}
	address.Name = strings.Replace(model.Name, model.Spec.VPC, pod.Namespace, 1)
	address.Spec.VPC, address.Spec.Subnet = pod.Namespace, pod.Namespace
	address.Spec.Node = pod.Spec.NodeName
	address.Spec.Holder.Namespace, address.Spec.Holder.UID = pod.Namespace, string(pod.UID)
	return address
}

// PatchLike returns the status patch that informed the model of its addresses, for another pod.
// Names taken from the model's namespace become names of the other's.
func PatchLike(model, pod *corev1.Pod) ([]byte, error) {
	reported := map[string]string{}
	keys := []string{v1alpha1.AttachmentsAnnotation, arktosv1.UserInputAnnotation, arktosv1.ReadinessAnnotation}
	for _, key := range keys {
		reported[key] = strings.ReplaceAll(model.Annotations[key], model.Namespace, pod.Namespace)
	}
	var conditions []corev1.PodCondition
	for _, condition := range model.Status.Conditions {
		if condition.Type == v1alpha1.NetworkReadyCondition {
			conditions = append(conditions, condition)
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "annotations": reported},
		"status":   map[string]any{"conditions": conditions},
	})
}
