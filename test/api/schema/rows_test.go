// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/samples"
	"github.com/alioth-net/alioth/test/hostile"
)

// variant is a sample with one field set to one value.
type variant struct {
	field, path string
	object      *unstructured.Unstructured
}

// variants set each field below spec, or below the object where a kind has none, to each hostile
// value.
func variants(sample *unstructured.Unstructured) (list []variant) {
	each(sample.Object, nil, func(path []any, value any) {
		field := fmt.Sprintf("%s %v", sample.GetKind(), path)
		for _, hostile := range valuesLike(value) {
			changed := sample.DeepCopy()
			set(changed.Object, path, hostile)
			if name := names[sample.GetKind()]; name != nil {
				spec, _ := changed.Object["spec"].(map[string]any)
				changed.SetName(name(spec))
			}
			list = append(list, variant{field, fmt.Sprintf("%s=%.40q", field, fmt.Sprint(hostile)), changed})
		}
	})
	return list
}

// each visits the values that are not maps, with their paths.
func each(value any, path []any, visit func(path []any, value any)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if len(path) > 0 || !slices.Contains([]string{"metadata", "apiVersion", "kind", "status"}, key) {
				each(value[key], append(path[:len(path):len(path)], key), visit)
			}
		}
		return
	case []any:
		for i := range value {
			each(value[i], append(path[:len(path):len(path)], i), visit)
		}
	}
	visit(path, value)
}

// valuesLike returns the hostile values for a field with that value.
func valuesLike(value any) (list []any) {
	switch value := value.(type) {
	case string:
		for _, text := range slices.Concat(hostile.Texts, hostile.Addresses, hostile.Prefixes) {
			list = append(list, text)
		}
	case int64:
		for _, number := range hostile.Numbers {
			list = append(list, int64(int32(number)), -int64(int32(number)))
		}
	case []any:
		list = append(list, []any{}, append(slices.Clone(value), value...))
		if len(value) > 0 {
			if text, ok := value[0].(string); ok {
				for _, other := range slices.Concat(hostile.Addresses, hostile.Prefixes) {
					list = append(list, []any{text, other})
				}
			}
		}
	}
	return list
}

func set(in any, path []any, value any) {
	for i, step := range path {
		last := i == len(path)-1
		switch at := in.(type) {
		case map[string]any:
			if last {
				at[step.(string)] = value
				return
			}
			in = at[step.(string)]
		case []any:
			if last {
				at[step.(int)] = value
				return
			}
			in = at[step.(int)]
		}
	}
}

// names are the names that objects must have by their specs. Without them a wrong field would
// be refused for the name of the object.
var names = map[string]func(spec map[string]any) string{
	"PolicyIdentity": func(spec map[string]any) string {
		return v1alpha1.PolicyIdentityName(textOf(spec["vpc"]), numberOf(spec["number"]))
	},
	"VNIClaim":    func(spec map[string]any) string { return fmt.Sprintf("vni-%v", spec["vni"]) },
	"DomainClaim": func(spec map[string]any) string { return fmt.Sprintf("domain-%v", spec["number"]) },
	"Address": func(spec map[string]any) string {
		ip, _ := netip.ParseAddr(textOf(spec["ip"]))
		return v1alpha1.AddressName(textOf(spec["vpc"]), ip.WithZone(""))
	},
	"ExternalAddress": func(spec map[string]any) string {
		ip, _ := netip.ParseAddr(textOf(spec["ip"]))
		return v1alpha1.ExternalAddressName(ip.WithZone(""))
	},
	"HostLink": func(spec map[string]any) string {
		return v1alpha1.HostLinkName(textOf(spec["type"]), numberOf(spec["vni"]), textOf(spec["device"]))
	},
	"HostVNIClaim": func(spec map[string]any) string {
		return v1alpha1.HostVNIClaimName(textOf(spec["type"]), numberOf(spec["vni"]), textOf(spec["device"]))
	},
	"Usage": func(spec map[string]any) string {
		return v1alpha1.UsageName(v1alpha1.UsageKind(textOf(spec["kind"])), textOf(spec["name"]))
	},
	"AttachmentClaim": func(spec map[string]any) string {
		pod, _ := spec["pod"].(map[string]any)
		return v1alpha1.AttachmentClaimName(textOf(pod["uid"]), textOf(spec["interface"]))
	},
}

func textOf(value any) string { s, _ := value.(string); return s }

func numberOf(value any) uint32 { n, _ := value.(int64); return uint32(n) }

// tolerated are fields with values that the store leaves out and the API server stores, with the reason.
var tolerated = map[string]string{
	"AttachmentClaim [spec network namespace]":                "rules of a schema do not see the namespace of the object (KEP-2876), which is to be the same; the operator alone writes claims",
	"NodeNetworkConfigurationPolicy [spec nodeSelector zone]": "the rule for labels of any length costs too much; administrators alone write policies",
}

// TestHostileValue_NoRowInStore_Refused sets each field of each kind of Alioth to each hostile
// value. An object that the product leaves out for its own fields alone is refused by the API
// server.
func TestHostileValue_NoRowInStore_Refused(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kinds.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(server.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: named("customer")}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	var work errgroup.Group
	work.SetLimit(6)
	var lock sync.Mutex
	tried := map[string]int{}
	for _, sample := range samples.All(t) {
		kind := kindOf(t, scheme, sample)
		if kind == nil || !ofAlioth(sample) {
			continue
		}
		for _, v := range append(variants(sample), variant{"", "the sample", sample}) {
			err := rowError(kind, v.object)
			if (err == nil) != (v.object == sample) {
				continue
			}
			work.Go(func() error {
				refusal := admin.Create(context.WithoutCancel(t.Context()), v.object.DeepCopy(), client.DryRunAll)
				lock.Lock()
				defer lock.Unlock()
				tried[sample.GetKind()]++
				switch {
				case v.object == sample && refusal != nil:
					t.Errorf("the sample of %s is refused: %v", sample.GetKind(), refusal)
				case v.object != sample && refusal == nil && tolerated[v.field] == "":
					t.Errorf("%s is stored, and has no row: %v", v.path, err)
				}
				return nil
			})
		}
	}
	_ = work.Wait()
	t.Logf("refused by the product: %v", tried)
}

// ofAlioth reports whether a kind has a schema of Alioth.
func ofAlioth(sample *unstructured.Unstructured) bool {
	group := sample.GroupVersionKind().Group
	return strings.Contains(group, ".") && (!strings.HasSuffix(group, ".k8s.io") || group == danmv1.GroupVersion.Group || group == nadv1.SchemeGroupVersion.Group)
}

// rowError returns why an object has no row.
func rowError(kind *descriptor.Kind, object *unstructured.Unstructured) error {
	typed := kind.NewObject()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil //nolint:nilerr // no object of the API server has such a value
	}
	_, err := kind.Row(typed)
	return err
}

func kindOf(t *testing.T, scheme *runtime.Scheme, sample *unstructured.Unstructured) *descriptor.Kind {
	t.Helper()
	for _, kind := range kinds.All() {
		known, _, err := scheme.ObjectKinds(kind.Object)
		if err != nil {
			t.Fatal(err)
		}
		if known[0].GroupKind() == sample.GroupVersionKind().GroupKind() {
			return kind
		}
	}
	return nil
}
