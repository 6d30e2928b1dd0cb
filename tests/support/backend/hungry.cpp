// A source that takes memory for as many parts as it has: NAME and PARTS are put in.
#include <utility>
namespace {
template <int I> struct Part { int values[I % 7 + 1]; };
template <class> struct Whole;
template <int... I> struct Whole<std::integer_sequence<int, I...>> {
  static int first() { int sizes[] = {int(sizeof(Part<I>))...}; return sizes[0]; }
};
}
int hungry_NAME() { return Whole<std::make_integer_sequence<int, PARTS>>::first(); }
