// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/refusal"
)

// Range is one subnet of a tenant's VPC.
type Range struct {
	// Name within the VPC.
	Name  string
	CIDRs []string
	// Reserved addresses and gateways, as in Subnet.spec.
	Reserved, Gateway []string
	// Bouncers as in Subnet.spec; 0 leaves it unset.
	Bouncers int32
}

// TenantSpec asks for a tenant with one namespace, one VPC and one Network.
type TenantSpec struct {
	// Name of the tenant, its namespace and its VPC.
	Name string
	// CIDRs of the VPC.
	CIDRs   []string
	Subnets []Range
	// Dividers as in VPC.spec; 0 leaves it unset.
	Dividers int32
	// Egress of the VPC; None if empty.
	Egress v1alpha1.Egress
	// Network is the name of the tenant's Network; "default", which pods use
	// without a label, if empty.
	Network string
}

// Tenant has the objects that SetUp made.
type Tenant struct {
	Name      string
	Namespace *corev1.Namespace
	VPC       *v1alpha1.VPC
	Subnets   []*v1alpha1.Subnet
	Network   *arktosv1.Network
}

// Objects returns the objects of the tenant, in the order of their creation.
func (t *Tenant) Objects() []client.Object {
	objects := []client.Object{t.Namespace, t.VPC}
	for _, subnet := range t.Subnets {
		objects = append(objects, subnet)
	}
	return append(objects, t.Network)
}

// Pod returns a pod of the tenant in its Network.
func (t *Tenant) Pod(name string, options ...PodOption) *corev1.Pod {
	label := t.Network.Name
	if label == arktosv1.DefaultNetwork {
		label = ""
	}
	return Pod(t.Namespace.Name, name, append([]PodOption{InNetwork(label)}, options...)...)
}

// NewTenant describes a tenant without creating it.
func NewTenant(spec TenantSpec) *Tenant {
	network := spec.Network
	if network == "" {
		network = arktosv1.DefaultNetwork
	}
	tenant := &Tenant{
		Name:      spec.Name,
		Namespace: Namespace(spec.Name, spec.Name),
		VPC:       VPC(spec.Name, []string{spec.Name}, spec.CIDRs...),
		Network:   Network(spec.Name, network, spec.Name),
	}
	if spec.Egress != "" {
		tenant.VPC.Spec.Egress = spec.Egress
	}
	if spec.Dividers > 0 {
		tenant.VPC.Spec.Dividers = &spec.Dividers
	}
	for _, r := range spec.Subnets {
		subnet := Subnet(spec.Name, r.Name, r.CIDRs...)
		subnet.Spec.Reserved, subnet.Spec.Gateway = r.Reserved, r.Gateway
		if r.Bouncers > 0 {
			subnet.Spec.Bouncers = &r.Bouncers
		}
		tenant.Subnets = append(tenant.Subnets, subnet)
	}
	return tenant
}

// SetUp creates a tenant and waits until pods can be created in its namespace
// and its Network is Ready.
func (s *Scene) SetUp(ctx context.Context, spec TenantSpec) (*Tenant, error) {
	tenant := NewTenant(spec)
	for _, object := range tenant.Objects() {
		if err := s.createAdmitted(ctx, object); err != nil {
			return tenant, err
		}
	}
	if err := s.WaitForAccount(ctx, tenant.Namespace.Name); err != nil {
		return tenant, err
	}
	if err := s.WaitForAdmission(ctx, tenant); err != nil {
		return tenant, err
	}
	return tenant, s.WaitNetworkReady(ctx, tenant.Network)
}

// createAdmitted creates an object. Right after its start an API server does not know the kinds of
// the policies' parameters, and refuses all objects of such a policy for up to 30 s.
func (s *Scene) createAdmitted(ctx context.Context, object client.Object) error {
	return Until(ctx, "admission of "+nameOf(object), func(ctx context.Context) (bool, string, error) {
		err := s.Create(ctx, object)
		if err != nil && refusal.UnknownParameters(err.Error()) {
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
}

// WaitForAdmission waits until the API server has the tenants' grants. Right after an
// installation, or after its own start, it does not, and refuses every pod of a tenant
// (docs/tenants/outside.md).
func (s *Scene) WaitForAdmission(ctx context.Context, tenant *Tenant) error {
	return Until(ctx, "admission of pods in "+tenant.Namespace.Name, func(ctx context.Context) (bool, string, error) {
		err := s.Client.Create(ctx, tenant.Pod("asks-admission"), client.DryRunAll)
		if refusal.MayPass(err) {
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
}

// TearDown deletes a tenant, its pods first, and waits until all of it is gone. Objects
// that were never created are skipped.
func (s *Scene) TearDown(ctx context.Context, tenant *Tenant) error {
	if err := s.BeginToLeave(ctx, tenant.Namespace); err != nil {
		return err
	}
	if err := s.FinishLeaving(ctx, tenant); err != nil {
		return err
	}
	return s.WaitGone(ctx, tenant.Namespace)
}

// leavers returns the kinds of objects that hold addresses or VPCs.
func leavers() []client.Object {
	return []client.Object{&corev1.Pod{}, &corev1.Service{}, &arktosv1.Network{}}
}

// BeginToLeave deletes a namespace, and the objects in it that hold addresses or VPCs: the
// namespace controller of Kubernetes waits for seconds before it begins with that.
func (s *Scene) BeginToLeave(ctx context.Context, namespace *corev1.Namespace) error {
	if err := s.Client.Delete(ctx, namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, kind := range leavers() {
		if err := s.Client.DeleteAllOf(ctx, kind, client.InNamespace(namespace.Name)); err != nil {
			return fmt.Errorf("delete the content of %s: %w", nameOf(namespace), err)
		}
	}
	return nil
}

// WaitEmpty waits until nothing in a namespace holds addresses or VPCs.
func (s *Scene) WaitEmpty(ctx context.Context, namespace *corev1.Namespace) error {
	for _, kind := range leavers() {
		gvk, err := s.Client.GroupVersionKindFor(kind)
		if err != nil {
			return err
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		err = Until(
			ctx,
			fmt.Sprintf("%s to have no %s", nameOf(namespace), gvk.Kind),
			func(ctx context.Context) (bool, string, error) {
				err := s.Client.List(ctx, list, client.InNamespace(namespace.Name))
				if err != nil || len(list.Items) == 0 {
					return err == nil, "", err
				}
				first := list.Items[0]
				return false, fmt.Sprintf(
					"%d, the first is %s with finalizers %v",
					len(list.Items),
					first.Name,
					first.Finalizers,
				), nil
			},
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// FinishLeaving deletes the other objects of a tenant once its namespace, which has begun to leave,
// is empty. It does not wait for the namespace itself.
func (s *Scene) FinishLeaving(ctx context.Context, tenant *Tenant) error {
	if err := s.WaitEmpty(ctx, tenant.Namespace); err != nil {
		return err
	}
	var rest []client.Object
	for _, subnet := range tenant.Subnets {
		rest = append(rest, subnet)
	}
	return s.Delete(ctx, append(rest, tenant.VPC)...)
}

// WaitForAccount waits until a namespace has its ServiceAccount. No pod can be created in it
// before.
func (s *Scene) WaitForAccount(ctx context.Context, namespace string) error {
	key := types.NamespacedName{Namespace: namespace, Name: "default"}
	return Until(ctx, "ServiceAccount "+key.String(), func(ctx context.Context) (bool, string, error) {
		err := s.Client.Get(ctx, key, &corev1.ServiceAccount{})
		return err == nil, "", client.IgnoreNotFound(err)
	})
}

// WaitNetworkReady waits until a Network is Ready.
func (s *Scene) WaitNetworkReady(ctx context.Context, network *arktosv1.Network) error {
	return Until(ctx, nameOf(network)+" to be Ready", func(ctx context.Context) (bool, string, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
		ready, seen := ReadyCondition(network.Status.Conditions)
		return err == nil && ready, seen, err
	})
}

// ReadyCondition reports whether the Ready condition is true, and returns its text.
func ReadyCondition(conditions []metav1.Condition) (ready bool, seen string) {
	for _, condition := range conditions {
		if condition.Type == v1alpha1.ReadyCondition {
			return condition.Status == metav1.ConditionTrue,
				fmt.Sprintf("Ready=%s %s: %s", condition.Status, condition.Reason, condition.Message)
		}
	}
	return false, "no Ready condition yet"
}
