// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// tenant has the objects of the first tenant of a narrow VPC beside its pods, with all that the
// operator has written. The other tenants are copies of it.
type tenant struct {
	// entries are the objects as the API server stores them, and uids theirs.
	entries []entry
	uids    []string
}

// firstTenant reads the objects that the operator has made of the first tenant.
func firstTenant(ctx context.Context, c client.Client) (t tenant, err error) {
	name := narrow(0)
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&v1alpha1.VNIClaim{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.VNIClaimName(uint32(vniOf(0)))}},
		&v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&v1alpha1.Usage{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.UsageName(v1alpha1.UsageOfVPC, name)}},
		&v1alpha1.Usage{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.UsageName(v1alpha1.UsageOfSubnet, name)}},
		&arktosv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: arktosv1.DefaultNetwork}},
	} {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return t, fmt.Errorf("read what the first tenant has: %w", err)
		}
		e, err := storedAs(c, object)
		if err != nil {
			return t, err
		}
		t.entries, t.uids = append(t.entries, e), append(t.uids, string(object.GetUID()))
	}
	return t, nil
}

// storedAs returns an object as the API server stores it; it reads built-in kinds in JSON too.
func storedAs(c client.Client, object client.Object) (entry, error) {
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return entry{}, fmt.Errorf("find the kind of %s: %w", object.GetName(), err)
	}
	mapping, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return entry{}, fmt.Errorf("find the resource of %s: %w", kind, err)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	object.SetResourceVersion("")
	value, err := json.Marshal(object)
	if err != nil {
		return entry{}, fmt.Errorf("encode %s %s: %w", kind.Kind, object.GetName(), err)
	}
	path := []string{"/registry", mapping.Resource.Resource, object.GetName()}
	if kind.Group != "" {
		path = []string{"/registry", kind.Group, mapping.Resource.Resource, object.GetName()}
	}
	if namespace := object.GetNamespace(); namespace != "" {
		path = append(path[:len(path)-1], namespace, object.GetName())
	}
	return entry{Key: []byte(strings.Join(path, "/")), Value: value}, nil
}

// copy returns the entries of the tenant with another number.
func (t tenant) copy(i int) (all []entry) {
	vni := func(i int) string { return fmt.Sprintf(`"vni":%d`, vniOf(i)) }
	pairs := []string{
		narrow(0), narrow(i), vni(0), vni(i),
		v1alpha1.VNIClaimName(uint32(vniOf(0))), v1alpha1.VNIClaimName(uint32(vniOf(i))),
	}
	for _, uid := range t.uids {
		pairs = append(pairs, uid, string(uuid.NewUUID()))
	}
	other := strings.NewReplacer(pairs...)
	for _, e := range t.entries {
		all = append(all, entry{Key: []byte(other.Replace(string(e.Key))), Value: []byte(other.Replace(string(e.Value)))})
	}
	return all
}
