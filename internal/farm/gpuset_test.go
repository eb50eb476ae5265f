package farm

import (
	"slices"
	"testing"
)

func TestAssignmentSets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  GPUSet
		want []int
		text string
	}{
		"empty":                    {GPUSet{}, nil, ""},
		"in any order, each once":  {NewGPUSet(3, 0, 3), []int{0, 3}, "0,3"},
		"across words":             {NewGPUSet(63, 64, 191, 192, MaxGPUIndex), []int{63, 64, 191, 192, MaxGPUIndex}, "63,64,191,192,254"},
		"no device has such names": {NewGPUSet(-1, 5, MaxGPUIndex+1, 1000), []int{5}, "5"},
		"without":                  {NewGPUSet(0, 1, 100).Without(NewGPUSet(1, 2)), []int{0, 100}, "0,100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.set.Indexes(); !slices.Equal(got, test.want) || test.set.Len() != len(test.want) || test.set.String() != test.text {
				t.Errorf("indexes %v, %d of them, text %q, want %v", got, test.set.Len(), test.set, test.want)
			}
			for i := -1; i <= MaxGPUIndex+1; i++ {
				if test.set.Has(i) != slices.Contains(test.want, i) {
					t.Errorf("Has(%d) = %v", i, test.set.Has(i))
				}
			}
			if test.set != NewGPUSet(test.want...) {
				t.Error("it is not equal to a set of the same indexes")
			}
		})
	}
}
