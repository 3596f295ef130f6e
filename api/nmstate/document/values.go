// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/alioth-net/alioth/api/quote"
)

// scalar sets a number, a truth value or a text. nmstate takes numbers and truth values in
// quotes too, and numbers for the words that they stand for. It returns a description of the
// wanted value, "" if the value fits.
func scalar(to reflect.Value, from any) (want string) {
	switch to.Kind() {
	case reflect.String:
		text, ok := textOf(from)
		if !ok {
			return "a text"
		}
		to.SetString(text)
	case reflect.Bool:
		truth, ok := truthOf(from)
		if !ok {
			return "true or false"
		}
		to.SetBool(truth)
	case reflect.Uint32:
		n, ok := numberOf(from)
		if !ok || n < 0 || n > math.MaxUint32 {
			return fmt.Sprintf("a number, 0 to %d", uint32(math.MaxUint32))
		}
		to.SetUint(uint64(n))
	default:
		n, ok := numberOf(from)
		if !ok {
			return "a whole number"
		}
		to.SetInt(n)
	}
	return ""
}

func textOf(value any) (string, bool) {
	if n, ok := value.(int64); ok {
		return strconv.FormatInt(n, 10), true
	}
	text, ok := value.(string)
	return text, ok
}

// truthOf reads a truth value in one of the forms that nmstate takes.
func truthOf(value any) (truth, ok bool) {
	if b, ok := value.(bool); ok {
		return b, true
	}
	text, ok := textOf(value)
	if !ok {
		return false, false
	}
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on", "y":
		return true, true
	case "0", "false", "no", "off", "n":
		return false, true
	default:
		return false, false
	}
}

// numberOf reads a number, or a text with decimals or, after 0x, hexadecimals.
func numberOf(value any) (int64, bool) {
	text, ok := textOf(value)
	if !ok {
		return 0, false
	}
	base := 10
	if digits, hex := strings.CutPrefix(text, "0x"); hex {
		text, base = digits, 16
	}
	const bits = 64
	n, err := strconv.ParseInt(text, base, bits)
	return n, err == nil
}

// shown returns a value as messages repeat it.
func shown(value any) string {
	if text, ok := value.(string); ok {
		return quote.Text(text)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "a value"
	}
	const most = 80
	return quote.Bounded(string(text), most)
}

// layout describes the form of a struct in a document.
type layout struct {
	// index has the indexes of the fields by their names in a document. The tag alias has a
	// second name that nmstate takes too.
	index map[string]int
	// names are the names of index, in the order of the struct. first are the names without second
	// names, by index.
	names, first []string
	// required are the names of the fields that have no value of their own when they are missing.
	required []string
}

// layouts are the layouts of all structs of a document.
var layouts = sync.OnceValue(func() map[reflect.Type]layout {
	all := map[reflect.Type]layout{}
	describe(all, reflect.TypeFor[State]())
	return all
})

func describe(all map[reflect.Type]layout, of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		describe(all, of.Elem())
	case reflect.Struct:
		if _, known := all[of]; known {
			return
		}
		l := layout{index: map[string]int{}}
		for index := range of.NumField() {
			field := of.Field(index)
			name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
			l.index[name], l.names, l.first = index, append(l.names, name), append(l.first, name)
			if alias := field.Tag.Get("alias"); alias != "" {
				l.index[alias], l.names = index, append(l.names, alias)
			}
			if !strings.Contains(rest, "omit") {
				l.required = append(l.required, name)
			}
		}
		all[of] = l
		for field := range of.Fields() {
			describe(all, field.Type)
		}
	}
}
