package farm

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// MaxGPUIndex is the highest index of a GPU's device file: the NVIDIA driver numbers at most 256 minor
// devices, the last of which is nvidiactl.
const MaxGPUIndex = 254

// GPUSet is a set of indexes of GPU device files on one node, 0..MaxGPUIndex: /dev/nvidia<index>. The zero
// value is empty; sets are compared with ==.
type GPUSet [4]uint64

// NewGPUSet makes a set. Indexes that no device file can have are left out.
func NewGPUSet(indexes ...int) GPUSet {
	var s GPUSet
	for _, i := range indexes {
		if i >= 0 && i <= MaxGPUIndex {
			s[i/64] |= 1 << (i % 64)
		}
	}
	return s
}

// Has reports whether an index is in the set.
func (s GPUSet) Has(index int) bool {
	return index >= 0 && index <= MaxGPUIndex && s[index/64]&(1<<(index%64)) != 0
}

// Len counts the indexes.
func (s GPUSet) Len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// Indexes lists the set, the lowest first.
func (s GPUSet) Indexes() []int {
	var all []int
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			all = append(all, 64*i+bits.TrailingZeros64(word))
		}
	}
	return all
}

// Without is the set less the indexes of another.
func (s GPUSet) Without(other GPUSet) GPUSet {
	for i := range s {
		s[i] &^= other[i]
	}
	return s
}

// String is the indexes with commas between, as NVIDIA_VISIBLE_DEVICES takes them; empty for an empty set.
func (s GPUSet) String() string {
	var all []string
	for _, i := range s.Indexes() {
		all = append(all, strconv.Itoa(i))
	}
	return strings.Join(all, ",")
}

// GPUWish is a node on which a workspace may run, with the number of GPU device files that it wants there.
type GPUWish struct {
	Node  NodeName
	Count int
}

// GPUPlace is where a workspace runs, and which GPUs of that node it has.
type GPUPlace struct {
	Node NodeName
	GPUs GPUSet
	// Warning tells what was not known when they were chosen; empty = nothing.
	Warning string
}

// GPURow is an assigned GPU in the database.
type GPURow struct {
	ID    int64
	User  UserName
	Pod   PodName
	Node  NodeName
	Index int
	// CreatedAt is in UTC, to the second.
	CreatedAt time.Time
}

// GPUFill counts the GPU device files of one node.
type GPUFill struct {
	Node NodeName
	Used int
	// Free is -1 where nobody knows how many GPUs the node has.
	Free int
}
