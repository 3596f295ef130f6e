// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"reflect"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// form is a field of interfaces that has a second name.
type form struct {
	first, second string
	// with is an interface with the field by one of its names.
	with func(name string, value any) map[string]any
	// values are two of the field.
	values [2]any
}

// forms are all such fields of the schema.
func forms() (list []form) {
	wrap := func(field string, value any) map[string]any {
		return map[string]any{"name": "x0", "type": "ethernet", "state": "up", field: value}
	}
	var find func(of reflect.Type, wrap func(string, any) map[string]any)
	find = func(of reflect.Type, wrap func(string, any) map[string]any) {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for member := range of.Fields() {
			name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
			if second := member.Tag.Get("alias"); second != "" {
				list = append(list, form{name, second, wrap, [2]any{example(member.Type, 0), example(member.Type, 1)}})
			}
			find(member.Type, func(field string, value any) map[string]any { return wrap(name, map[string]any{field: value}) })
		}
	}
	find(reflect.TypeFor[document.Interface](), wrap)
	return list
}

// example is one of two values of a type.
func example(of reflect.Type, which int) any {
	switch of.Kind() {
	case reflect.Pointer:
		return example(of.Elem(), which)
	case reflect.Slice:
		return []any{example(of.Elem(), which)}
	case reflect.Struct:
		member := of.Field(0)
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		return map[string]any{name: example(member.Type, which)}
	case reflect.String:
		return []string{"y1", "y2"}[which]
	case reflect.Bool:
		return which == 0
	default:
		return float64(which + 1)
	}
}

// TestPolicyField_EachName_SameField: what a policy sets by the second name of a field is undone,
// and is a conflict with another value by the first name.
func TestPolicyField_EachName_SameField(t *testing.T) {
	all := forms()
	const least = 6
	if len(all) < least {
		t.Fatalf("only %d fields have second names", len(all))
	}
	for _, f := range all {
		t.Run(f.second+" "+f.first, func(t *testing.T) {
			state := func(name string, value any) string {
				return words(t, map[string]any{"interfaces": []any{f.with(name, value)}})
			}
			before := state(f.first, f.values[0])
			c := newCluster(t, "n1")
			c.current(before)
			c.put("a", state(f.second, f.values[1]))
			c.settle()
			same(t, "the network", c.states["n1"].Current, state(f.first, f.values[1]))
			c.put("b", state(f.first, f.values[1]))
			c.settle()
			if lost := c.enactment("n1", "b").Overruled; lost != "" {
				t.Errorf("the same value is a conflict: %s", lost)
			}
			c.put("b", state(f.first, f.values[0]))
			c.settle()
			if lost := c.enactment("n1", "b").Overruled; !strings.Contains(lost, f.first) {
				t.Errorf("another value is no conflict: %q", lost)
			}
			delete(c.policies, ref("b"))
			c.settle()
			delete(c.policies, ref("a"))
			c.handle("n1")
			if e := c.enactment("n1", "a"); e.Phase != nmstate.Progressing || strings.Contains(e.Message, "stay") {
				t.Errorf("at its end, the policy is %s: %s", e.Phase, e.Message)
			}
			c.settle()
			same(t, "the network at the end", c.states["n1"].Current, before)
		})
	}
}
