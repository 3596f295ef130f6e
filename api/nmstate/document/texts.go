// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// checkTexts returns an error for each text of a state that is longer than a message repeats,
// or can't be printed. The description of the whole state is for people, and may be.
func checkTexts(s *State) error {
	checked := *s
	checked.Description = ""
	return errors.Join(unfitTexts("", reflect.ValueOf(checked))...)
}

func unfitTexts(path string, v reflect.Value) (errs []error) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); !quote.IsShort(text) {
			errs = append(
				errs,
				fmt.Errorf(
					"%s: %s has %d bytes: want at most %d, which can be printed",
					path,
					quote.Text(text),
					len(text),
					quote.MaxQuoted,
				),
			)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			errs = unfitTexts(path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			errs = append(errs, unfitTexts(strings.Trim(path+"."+name, "."), v.Field(i))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			errs = append(errs, unfitTexts(fmt.Sprintf("%s[%d]", path, i), v.Index(i))...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			errs = append(errs, unfitTexts(path, key)...)
			errs = append(errs, unfitTexts(path+"."+quote.Name(key.String()), v.MapIndex(key))...)
		}
	}
	return errs
}
