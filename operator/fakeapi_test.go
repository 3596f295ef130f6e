// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

// fakeAPI is the part of an API server that claims rest on: names that exist once, UIDs and
// resource versions as preconditions, finalizers, status apart from the rest, and an ordered log of
// changes. TestFakeAPI_EachRequest_AnswersLikeRealOne compares it with a real one. It is for one
// goroutine.
type fakeAPI struct {
	now     func() time.Time
	serial  int
	objects map[apiKey]client.Object
	// log has every change, in order.
	log []apiChange
	// lacks are the kinds that the API does not have.
	lacks []*descriptor.Kind
}

type apiKey struct {
	kind reflect.Type
	types.NamespacedName
}

// apiChange is the state of an object after a change; now is nil for a deleted object.
type apiChange struct {
	key apiKey
	now client.Object
}

// has implements optionalKinds.
func (a *fakeAPI) has(kind *descriptor.Kind) (bool, error) {
	return !slices.Contains(a.lacks, kind), nil
}

func newFakeAPI(now func() time.Time) *fakeAPI {
	return &fakeAPI{now: now, objects: map[apiKey]client.Object{}}
}

func keyOf(object client.Object) apiKey {
	return apiKey{reflect.TypeOf(object), client.ObjectKeyFromObject(object)}
}

func clone[O client.Object](object O) O { return object.DeepCopyObject().(O) }

func assign(into, from client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(clone(from)).Elem())
}

func group(object client.Object) schema.GroupResource {
	return schema.GroupResource{Resource: reflect.TypeOf(object).Elem().Name()}
}

func conflict(object client.Object, why string) error {
	return apierrors.NewConflict(group(object), object.GetName(), errors.New(why))
}

// sorted lists the objects of a kind by name.
func sorted[O client.Object](a *fakeAPI) []O {
	var all []O
	for key, object := range a.objects {
		if _, ok := object.(O); ok && key.kind == reflect.TypeFor[O]() {
			all = append(all, clone(object).(O))
		}
	}
	slices.SortFunc(all, func(x, y O) int {
		if x.GetNamespace()+"/"+x.GetName() < y.GetNamespace()+"/"+y.GetName() {
			return -1
		}
		return 1
	})
	return all
}

func (a *fakeAPI) store(object client.Object) {
	a.serial++
	object.SetResourceVersion(fmt.Sprint(a.serial))
	a.objects[keyOf(object)] = clone(object)
	a.log = append(a.log, apiChange{keyOf(object), clone(object)})
}

func (a *fakeAPI) drop(object client.Object) {
	a.serial++
	delete(a.objects, keyOf(object))
	a.log = append(a.log, apiChange{key: keyOf(object)})
}

func (a *fakeAPI) get(key client.ObjectKey, into client.Object) error {
	found, ok := a.objects[apiKey{reflect.TypeOf(into), key}]
	if !ok {
		return apierrors.NewNotFound(group(into), key.Name)
	}
	assign(into, found)
	return nil
}

func (a *fakeAPI) create(object client.Object) error {
	if _, exists := a.objects[keyOf(object)]; exists {
		return apierrors.NewAlreadyExists(group(object), object.GetName())
	}
	a.serial++
	object.SetUID(types.UID(fmt.Sprintf("uid-%06d", a.serial)))
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(a.now().Truncate(time.Second)))
	clearStatus(object)
	a.store(object)
	return nil
}

// clearStatus removes the fields that can't be written when creating, or outside of the
// subresource.
func clearStatus(object client.Object) {
	copyStatus(object, reflect.New(reflect.TypeOf(object).Elem()).Interface())
}

func copyStatus(into client.Object, from any) {
	if status := reflect.ValueOf(into).Elem().FieldByName("Status"); status.IsValid() {
		status.Set(reflect.ValueOf(from).Elem().FieldByName("Status"))
	}
}

func (a *fakeAPI) update(object client.Object) error {
	old, ok := a.objects[keyOf(object)]
	switch {
	case !ok:
		return apierrors.NewNotFound(group(object), object.GetName())
	case object.GetUID() != "" && object.GetUID() != old.GetUID():
		return conflict(object, "the UID is another")
	case object.GetResourceVersion() != "" && object.GetResourceVersion() != old.GetResourceVersion():
		return conflict(object, "the object has been modified")
	}
	next := clone(object)
	copyStatus(next, old)
	a.change(object, next, old)
	return nil
}

// change writes next in the place of old, and tells the writer. An object that is being
// deleted goes with its last finalizer.
func (a *fakeAPI) change(object, next, old client.Object) {
	a.keep(next, old)
	assign(object, next)
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		a.drop(next)
	}
}

// keep writes next in the place of old, with the fields that the server alone decides.
func (a *fakeAPI) keep(next, old client.Object) {
	next.SetUID(old.GetUID())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	next.SetResourceVersion(old.GetResourceVersion())
	next.SetGeneration(old.GetGeneration())
	if service, ok := next.(*corev1.Service); ok && service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		service.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
	if !reflect.DeepEqual(specOf(next), specOf(old)) {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	if !reflect.DeepEqual(next, old) {
		a.store(next)
	}
}

// specOf returns the spec of an object, or all but metadata and status where it has none.
func specOf(object client.Object) any {
	value := reflect.ValueOf(object).Elem()
	if field := value.FieldByName("Spec"); field.IsValid() {
		return field.Interface()
	}
	var fields []any
	for i := range value.NumField() {
		if name := value.Type().Field(i).Name; name != "TypeMeta" && name != "ObjectMeta" && name != "Status" {
			fields = append(fields, value.Field(i).Interface())
		}
	}
	return fields
}

// apply makes a server-side apply of fields that no other manager has, to an existing object.
func (a *fakeAPI) apply(object client.Object, patch client.Patch) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	wants := clone(object)
	if err := json.Unmarshal(data, wants); err != nil {
		return err
	}
	old, ok := a.objects[keyOf(object)]
	switch {
	case !ok, wants.GetUID() != old.GetUID():
		return conflict(object, "the UID is another")
	case wants.GetResourceVersion() != old.GetResourceVersion():
		return conflict(object, "the object has been modified")
	}
	next := clone(old)
	if err := json.Unmarshal(data, next); err != nil {
		return err
	}
	copyStatus(next, old)
	a.keep(next, old)
	assign(object, next)
	return nil
}

// patch applies a patch of all but the status.
func (a *fakeAPI) patch(object client.Object, patch client.Patch) error {
	next, old, err := a.patched(object, patch)
	if err != nil {
		return err
	}
	copyStatus(next, old)
	a.change(object, next, old)
	return nil
}

// patchStatus applies a patch of a status, which takes metadata too.
func (a *fakeAPI) patchStatus(object client.Object, patch client.Patch) error {
	next, old, err := a.patched(object, patch)
	if err != nil {
		return err
	}
	if err := validation.ValidateAnnotationsSize(next.GetAnnotations()); err != nil {
		return apierrors.NewInvalid(old.GetObjectKind().GroupVersionKind().GroupKind(), old.GetName(),
			field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", validation.TotalAnnotationSizeLimitB)})
	}
	a.keep(next, old)
	assign(object, next)
	return nil
}

// patched returns an object with a patch, and as it was before.
func (a *fakeAPI) patched(object client.Object, patch client.Patch) (next, old client.Object, err error) {
	old, ok := a.objects[keyOf(object)]
	if !ok {
		return nil, nil, apierrors.NewNotFound(group(object), object.GetName())
	}
	data, err := patch.Data(object)
	if err != nil {
		return nil, nil, err
	}
	var wants struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &wants); err != nil {
		return nil, nil, err
	}
	if uid := wants.Metadata.UID; uid != "" && uid != old.GetUID() {
		return nil, nil, apierrors.NewInvalid(old.GetObjectKind().GroupVersionKind().GroupKind(), old.GetName(), nil)
	}
	if version := wants.Metadata.ResourceVersion; version != "" && version != old.GetResourceVersion() {
		return nil, nil, conflict(object, "the object has been modified")
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, nil, err
	}
	var after []byte
	if patch.Type() == types.MergePatchType {
		after, err = mergePatch(before, data)
	} else {
		after, err = strategicpatch.StrategicMergePatch(before, data, old)
	}
	if err != nil {
		return nil, nil, err
	}
	next = reflect.New(reflect.TypeOf(old).Elem()).Interface().(client.Object)
	return next, old, json.Unmarshal(after, next)
}

// mergePatch applies a patch of RFC 7386.
func mergePatch(before, data []byte) ([]byte, error) {
	var into, patch map[string]any
	if err := errors.Join(json.Unmarshal(before, &into), json.Unmarshal(data, &patch)); err != nil {
		return nil, err
	}
	merge(into, patch)
	return json.Marshal(into)
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		fields, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isObject:
			inside, _ := into[key].(map[string]any)
			if inside == nil {
				inside = map[string]any{}
			}
			into[key] = inside
			merge(inside, fields)
		default:
			into[key] = value
		}
	}
}

func (a *fakeAPI) delete(object client.Object, preconditions *metav1.Preconditions) error {
	old, ok := a.objects[keyOf(object)]
	switch {
	case !ok:
		return apierrors.NewNotFound(group(object), object.GetName())
	case preconditions != nil && preconditions.UID != nil && *preconditions.UID != old.GetUID():
		return conflict(object, "the UID is another")
	case len(old.GetFinalizers()) == 0:
		a.drop(old)
		return nil
	case old.GetDeletionTimestamp() == nil:
		a.markDeleting(old)
	}
	return nil
}

// markDeleting marks an object as deleted: a pod in graceful deletion, or an object with a
// finalizer.
func (a *fakeAPI) markDeleting(object client.Object) {
	next, now := clone(object), metav1.NewTime(a.now())
	next.SetDeletionTimestamp(&now)
	a.store(next)
}

// snapshot and restore work as etcd's backups do. The revision goes on, as with --bump-revision.
func (a *fakeAPI) snapshot() map[apiKey]client.Object { return maps.Clone(a.objects) }

func (a *fakeAPI) restore(snapshot map[apiKey]client.Object) { a.objects = maps.Clone(snapshot) }

// fromCache is the verb of a read that informers answer without a request.
const fromCache = "read"

// apiClient is one program's connection to the fake. hook is called before and after the effect of
// every request, also of requests that the informers answer: informers go on beside the caller. Its
// error is the answer.
type apiClient struct {
	client.Client
	api  *fakeAPI
	hook func(verb string, object client.Object, effect func() error) error
	// cached answers reads; nil reads live.
	cached func(key apiKey) client.Object
}

func (c *apiClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if c.cached == nil {
		return c.hook("get", into, func() error { return c.api.get(key, into) })
	}
	return c.hook(fromCache, into, func() error {
		found := c.cached(apiKey{reflect.TypeOf(into), key})
		if found == nil {
			return apierrors.NewNotFound(group(into), key.Name)
		}
		assign(into, found)
		return nil
	})
}

func (c *apiClient) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return c.hook("create", object, func() error { return c.api.create(object) })
}

func (c *apiClient) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	return c.hook("update", object, func() error { return c.api.update(object) })
}

func (c *apiClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	switch patch.Type() {
	case types.ApplyPatchType:
		return c.hook("apply", object, func() error { return c.api.apply(object, patch) })
	case types.MergePatchType:
		return c.hook("patch", object, func() error { return c.api.patch(object, patch) })
	}
	return fmt.Errorf("unexpected patch of type %s", patch.Type())
}

func (c *apiClient) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	return c.hook("delete", object, func() error { return c.api.delete(object, options.Preconditions) })
}

func (c *apiClient) Status() client.SubResourceWriter { return statusClient{c: c} }

type statusClient struct {
	client.SubResourceWriter
	c *apiClient
}

func (s statusClient) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if options := (&client.SubResourcePatchOptions{}).ApplyOptions(opts); len(options.DryRun) > 0 {
		return s.c.hook("get", object, func() error {
			next, _, err := s.c.api.patched(object, patch)
			if err == nil {
				assign(object, next)
			}
			return err
		})
	}
	return s.c.hook("patch status", object, func() error { return s.c.api.patchStatus(object, patch) })
}

// kindsOfAPI returns the kinds that operators and daemons follow, in the order of a feed's
// requests.
func kindsOfAPI() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &corev1.Node{}, &networkingv1.ServiceCIDR{}, &v1alpha1.VNIClaim{}, &v1alpha1.RollCall{},
		&v1alpha1.SharedService{}, &v1alpha1.VPC{}, &v1alpha1.Subnet{}, &v1alpha1.Usage{}, &v1alpha1.Address{},
		&v1alpha1.AttachmentClaim{}, &v1alpha1.RoleMember{}, &v1alpha1.NodeRoles{},
		&v1alpha1.ExternalPool{}, &v1alpha1.ExternalAddress{}, &v1alpha1.HostAccess{}, &v1alpha1.ScaledEndpoint{},
		&arktosv1.Network{}, &corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Pod{},
		&v1alpha1.HostVNIClaim{}, &v1alpha1.DomainClaim{}, &nadv1.NetworkAttachmentDefinition{},
		&v1alpha1.DelegationGrant{}, &v1alpha1.HostLink{}, &v1alpha1.HostLinkReport{}, &v1alpha1.PolicyIdentity{},
		&danmv1.DanmNet{}, &danmv1.TenantNetwork{}, &danmv1.ClusterNetwork{}, &danmv1.TenantConfig{},
		&danmiov1.DanmNet{}, &danmiov1.TenantNetwork{}, &danmiov1.ClusterNetwork{}, &danmiov1.TenantConfig{},
		&multitenancyv1alpha1.PodNetwork{}, &multitenancyv1alpha1.PodNetworkInstance{},
		&multitenancyv1alpha1.MultitenantPodNetworkConfig{}, &multitenancyv1alpha1.NodeInfo{},
		&acnv1alpha1.PodNetwork{}, &acnv1alpha1.PodNetworkInstance{}, &acnv1alpha1.MultiTenantPodNetworkConfig{}, &acnv1alpha1.NodeInfo{},
	}
}
